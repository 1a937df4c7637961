"""Base class of the PyTorch trainers. A `TorchLearner` does the training.

torch is imported only when a learner is created, so settings and datasets can be checked without it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.contract import Trainer
from anygpu.trainers.result import Export
from anygpu.trainers.torch.processes import TorchProcesses
from anygpu.trainers.torch.settings import SettingOption, read

if TYPE_CHECKING:
    from anygpu.trainers.torch.learner import TorchLearner


class TorchTrainer(TorchProcesses, Trainer):
    options: ClassVar[Mapping[str, SettingOption]]
    learner: TorchLearner

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        read(cls.options, config.options)

    @abstractmethod
    def create_learner(self) -> TorchLearner:
        """Create the learner, which trains the model. Only this method may import torch."""

    def create_model(self) -> None:
        self.learner = self.create_learner()

    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        progress, steps = self.progress, self.learner.steps_per_epoch
        if progress.step_in_epoch < steps:
            for step in self.learner.steps(epoch, progress.step_in_epoch):
                progress.totals["loss"] = progress.totals.get("loss", 0.0) + step.loss
                progress.saw(step.samples)
                self.step_done({"loss": step.loss, "learning_rate": step.rate}, steps_per_epoch=steps)
        return {"loss": progress.totals["loss"] / steps}

    def validate(self, epoch: int) -> Mapping[str, float]:
        return self.learner.validate()

    def save_checkpoint(self, directory: Path) -> None:
        self.learner.save(directory)

    def contribute_state(self) -> None:
        self.learner.contribute_state()

    def load_checkpoint(self, directory: Path) -> None:
        self.learner.load(directory)

    def save_weights(self, directory: Path, stem: str) -> Path:
        return self.learner.save_weights(directory / f"{stem}.safetensors")

    def load_weights(self, path: Path) -> None:
        self.learner.load_weights(path)

    def export_model(self, format: str, directory: Path) -> Export:
        return self.learner.export(format, directory)
