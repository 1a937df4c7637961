"""A yolo training in which the memory of one GPU of several is exhausted."""

from typing import Any

from anygpu.trainers.yolo.trainer import Yolo


class ShortOfMemory(Yolo):
    def create_model(self) -> None:
        super().create_model()
        if self.ranks.rank == 1:
            self.engine.preprocess_batch = refuse


def refuse(_: Any) -> None:
    raise RuntimeError("CUDA out of memory")
