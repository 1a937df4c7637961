"""The smallest trainer there can be: fits a line, in plain Python, with a random order and a momentum."""

import json
import random
from collections.abc import Mapping
from pathlib import Path

from anygpu.trainers import Accepts, BadExport, Export, Trainer

POINTS = [(x / 20, 3 * x / 20 - 1) for x in range(20)]


class Line(Trainer):
    name = "line"
    accepts = Accepts(options=frozenset({"momentum"}), exports=("json",), defaults={"export": ("json",)})

    def prepare_dataset(self) -> None:
        self.points, self.data_hash = POINTS, "0" * 64

    def create_model(self) -> None:
        self.chance = random.Random(self.config.seed)
        self.slope = self.offset = self.speed = 0.0
        self.order: list[int] = []

    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        if not self.progress.step_in_epoch:
            self.order = self.chance.sample(range(len(self.points)), len(self.points))
        for index in self.order[self.progress.step_in_epoch :]:
            error = self._step(*self.points[index])
            self.progress.saw([index])
            totals = self.progress.totals
            totals["loss"] = totals.get("loss", 0.0) + error * error
            self.step_done({"loss": error * error}, steps_per_epoch=len(self.points))
        return {"loss": self.progress.totals["loss"] / len(self.points)}

    def _step(self, x: float, y: float) -> float:
        error = self.slope * x + self.offset - y + self.chance.gauss(0, 0.001)
        self.speed = self.config.option("momentum", 0.5) * self.speed + error * x
        self.slope -= 0.1 * self.speed
        self.offset -= 0.1 * error
        return error

    def validate(self, epoch: int) -> Mapping[str, float]:
        return {"val_loss": sum((self.slope * x + self.offset - y) ** 2 for x, y in self.points)}

    def save_checkpoint(self, directory: Path) -> None:
        state = [self.slope, self.offset, self.speed, self.order, self.chance.getstate()]
        (directory / "state.json").write_text(json.dumps(state))

    def load_checkpoint(self, directory: Path) -> None:
        self.slope, self.offset, self.speed, self.order, chance = json.loads(
            (directory / "state.json").read_text()
        )
        self.chance.setstate((chance[0], tuple(chance[1]), chance[2]))

    def save_weights(self, directory: Path, stem: str) -> Path:
        (directory / f"{stem}.json").write_text(json.dumps([self.slope, self.offset]))
        return directory / f"{stem}.json"

    def load_weights(self, path: Path) -> None:
        self.slope, self.offset = json.loads(path.read_text())

    def export_model(self, format: str, directory: Path) -> Export:
        path = self.save_weights(directory, "line")
        if json.loads(path.read_text()) != [self.slope, self.offset]:
            raise BadExport("the file is not the line")
        return Export(format=format, path=path, difference=0.0, tolerance=0.0)
