"""The `rtdetr` trainer: RT-DETR and RT-DETRv2 from transformers, trained by anygpu's own loop.

On a CPU, a resumed run gives exactly the result of an uninterrupted run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.detr import settings
from anygpu.trainers.detr.trainer import DetrTrainer
from anygpu.trainers.rtdetr import models
from anygpu.trainers.torch.settings import read

if TYPE_CHECKING:
    from anygpu.trainers.torch.learner import TorchLearner

USUAL_SIZE, MULTIPLE = 640, 32


class RtDetr(DetrTrainer):
    name = "rtdetr"
    title = "RT-DETR"
    description = "Detects objects in images with RT-DETR or RT-DETRv2."
    extra = "rtdetr"
    needs = ("torch", "transformers", "scipy", "PIL", "safetensors")
    licence = "Apache-2.0"
    options = settings.OPTIONS
    known_models = models.NAMES
    accepts = settings.accepts(settings.OPTIONS, models.DEFAULT)
    planner_hints = PlannerHints(
        framework="transformers",
        default_model=models.DEFAULT,
        parameters=models.PARAMETERS,
        requirements=("torch",),
    )

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        super().check(config)
        models.normalize_name(config.model)
        settings.check_image_size(config, MULTIPLE)

    def create_learner(self) -> TorchLearner:
        from anygpu.trainers.rtdetr.network import RtDetrLearner

        config = self.config
        options = read(self.options, config.options)
        return RtDetrLearner(config, options, self.dataset, size=config.image_size or USUAL_SIZE)
