"""A model, its optimiser and its data, taken step by step: everything that has a state is kept, and comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.result import Export
from anygpu.trainers.torch import device, exports, schedules, state
from anygpu.trainers.torch.settings import USUAL_RATE


@dataclass(frozen=True)
class Step:
    """One step that was taken: its loss, its learning rate, and the ids of the samples it saw."""

    loss: float
    rate: float
    samples: Sequence[int | str]


class Learner(ABC):
    """What the trainers on torch share. `options` are those of the trainer, read and checked."""

    def __init__(self, config: TrainingConfig, options: Mapping[str, Any], steps_per_epoch: int) -> None:
        self.config, self.options, self.steps_per_epoch = config, options, steps_per_epoch
        device.prepare(threads=options["threads"], deterministic=options["deterministic"])
        state.seed_everything(config.seed)
        self.device = device.chosen(config.device)
        self.model = self.create_model().to(self.device)
        self.rate = config.learning_rate or USUAL_RATE[config.optimizer]
        self.optimizer = self.create_optimizer()
        self.scaler = device.scaler(self.device, config.amp)
        self.schedule = self.create_schedule()

    @abstractmethod
    def create_model(self) -> Any: ...

    @abstractmethod
    def batches(self, epoch: int, step: int) -> Iterator[tuple[Sequence[Any], Sequence[int | str]]]:
        """(the parts of a batch, ids of its samples) from a step of an epoch on; parts add up to one step."""

    @abstractmethod
    def loss(self, part: Any) -> Any:
        """Of one part of a batch."""

    @abstractmethod
    def validate(self) -> Mapping[str, float]: ...

    @abstractmethod
    def export(self, format: str, directory: Path) -> Export: ...

    @abstractmethod
    def about(self) -> Mapping[str, str]:
        """What somebody who finds only the weights needs to use them."""

    def network(self) -> Any:
        """What of the model is weights worth keeping."""
        return self.model

    def mode_of_training(self) -> None:
        self.model.train()

    # -- steps ------------------------------------------------------------------------------------------------

    def steps(self, epoch: int, first: int) -> Iterator[Step]:
        self.mode_of_training()
        done = epoch * self.steps_per_epoch + first
        for step, (parts, samples) in enumerate(self.batches(epoch, first), start=done):
            rate = self.rate * self.schedule(step)
            yield Step(self._step(parts, rate), rate, samples)

    def _step(self, parts: Sequence[Any], rate: float) -> float:
        """The gradients of all parts are added up before the weights move once."""
        schedules.set_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        total = sum(self._add_gradients(part, len(parts)) for part in parts)
        if self.options["clip"]:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options["clip"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total

    def _add_gradients(self, part: Any, parts: int) -> float:
        with device.autocast(self.device, self.config.amp):
            loss = self.loss(part) / parts
        self.scaler.scale(loss).backward()
        return float(loss.detach())

    # -- how it learns ----------------------------------------------------------------------------------------

    def parameters(self) -> list[Any]:
        return [each for each in self.model.parameters() if each.requires_grad]

    def create_optimizer(self) -> Any:
        decay, momentum = self.options["weight_decay"], self.options["momentum"]
        return schedules.optimizer(
            self.config.optimizer, self.parameters(), self.rate, decay=decay, momentum=momentum
        )

    def create_schedule(self) -> schedules.Schedule:
        options = self.options
        return schedules.schedule(
            self.config.scheduler,
            self.steps_per_epoch * self.config.epochs,
            warmup=options["warmup_steps"],
            floor=options["floor"],
            every=options["step_epochs"] * self.steps_per_epoch,
            gamma=options["gamma"],
        )

    # -- keeping ----------------------------------------------------------------------------------------------

    def _parts(self) -> dict[str, state.Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def save(self, directory: Path) -> None:
        state.save(directory, self._parts())

    def load(self, directory: Path) -> None:
        state.load(directory, self._parts())

    def save_weights(self, path: Path) -> Path:
        return exports.save_weights(self.network(), path, self.about())

    def load_weights(self, path: Path) -> None:
        exports.load_weights(self.network(), path)
