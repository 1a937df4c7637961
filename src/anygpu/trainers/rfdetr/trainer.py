"""The `rfdetr` trainer: Roboflow's models and losses, trained by anygpu's own resumable loop.

On a CPU, a resumed run gives exactly the result of an uninterrupted run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.detr import settings
from anygpu.trainers.detr.trainer import DetrTrainer
from anygpu.trainers.rfdetr import models
from anygpu.trainers.torch.settings import SettingOption, read

if TYPE_CHECKING:
    from anygpu.trainers.torch.learner import TorchLearner

OPTIONS = {
    **settings.OPTIONS,
    "groups": SettingOption(
        default=13, low=1, high=64, about="parallel query groups while training; inference uses one"
    ),
    models.ACCEPTS_PML: SettingOption(
        default=False, about="accept the licence PML-1.0 of the sizes xlarge and 2xlarge"
    ),
}


class RfDetr(DetrTrainer):
    name = "rfdetr"
    title = "RF-DETR"
    description = "Detects objects in images with Roboflow's RF-DETR."
    extra = "rfdetr"
    needs = ("torch", "torchvision", "transformers", "rfdetr", "scipy", "PIL", "safetensors")
    licence = "Apache-2.0 (sizes xlarge and 2xlarge: PML-1.0)"
    options = OPTIONS
    known_models = tuple(models.PARAMETERS)
    accepts = settings.accepts(OPTIONS, models.DEFAULT)
    planner_hints = PlannerHints(
        framework="torch",
        default_model=models.DEFAULT,
        parameters=models.PARAMETERS,
        requirements=("torch",),
    )

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        super().check(config)
        models.check_licence(config)
        settings.check_image_size(config, models.SQUARES)

    def create_learner(self) -> TorchLearner:
        from anygpu.trainers.rfdetr.network import RfDetrLearner

        config = self.config
        size = config.image_size or models.default_image_size(config.model)
        return RfDetrLearner(config, read(self.options, config.options), self.dataset, size=size)
