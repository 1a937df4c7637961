"""Train a torch model step by step: optimiser, learning-rate schedule and checkpoint state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.result import Export
from anygpu.trainers.torch import device, exports, state
from anygpu.trainers.torch.ranks import TorchRanks, current_ranks
from anygpu.trainers.torch.settings import USUAL_RATE

RANK_SEED_STEP = 1_000_003  # between the random seeds of two ranks
Schedule = Callable[[int], float]  # step (from 0) -> factor of the learning rate


def optimizer(
    name: str, parameters: Iterable[Any], rate: float, *, decay: float = 0.0, momentum: float = 0.9
) -> Any:
    if name == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, momentum=momentum, weight_decay=decay, nesterov=momentum > 0
        )
    kind = torch.optim.AdamW if name == "adamw" else torch.optim.Adam
    return kind(parameters, lr=rate, weight_decay=decay)


def set_rate(optimizer: Any, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def schedule(
    name: str, steps: int, *, warmup: int = 0, floor: float = 0.0, every: int = 0, gamma: float = 0.1
) -> Schedule:
    """Return the learning-rate schedule called `name`: a function from step to a factor of the rate.

    In the first `warmup` steps, the factor rises linearly. `floor` is the final factor of the schedule
    `cosine`. The schedule `step` multiplies the rate by `gamma` after each `every` steps (0: a third of all).
    """
    shapes: dict[str, Schedule] = {
        "cosine": lambda step: _cosine(step - warmup, max(1, steps - warmup), floor),
        "step": lambda step: gamma ** (step // max(1, every or -(-steps // 3))),
        "onecycle": lambda step: _one_cycle(step / max(1, steps)),
        "none": lambda step: 1.0,
    }
    shape = shapes[name]
    return lambda step: (step + 1) / warmup if step < warmup else shape(step)


def _cosine(step: int, steps: int, floor: float) -> float:
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps)))


def _one_cycle(done: float, rising: float = 0.3, start: float = 1 / 25, end: float = 1e-4) -> float:
    """Return the one-cycle factor: it rises for 30 % of the training, then falls to `end`, both as a cosine."""
    if done < rising:
        return 1 - (1 - start) * 0.5 * (1 + math.cos(math.pi * done / rising))
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, (done - rising) / (1 - rising))))


@dataclass(frozen=True)
class TrainStep:
    """One completed training step: its loss, its learning rate, and the ids of its samples."""

    loss: float
    rate: float
    samples: Sequence[int | str]


class TorchLearner(ABC):
    """The training loop that all PyTorch trainers share. `options` are the trainer's checked options."""

    def __init__(self, config: TrainingConfig, options: Mapping[str, Any], steps_per_epoch: int) -> None:
        self.config, self.options, self.steps_per_epoch = config, options, steps_per_epoch
        self.ranks = current_ranks()
        device.prepare(threads=options["threads"], deterministic=options["deterministic"])
        state.seed_everything(config.seed)
        self.device = device.choose_device(config.device, self.ranks)
        self.model = self.create_model().to(self.device)
        self.rate = config.learning_rate or USUAL_RATE[config.optimizer]
        self.optimizer = self.create_optimizer()
        self.scaler = device.scaler(self.device, config.amp)
        self.schedule = self.create_schedule()
        if isinstance(self.ranks, TorchRanks):
            self.ranks.copy_from_first(self.model.state_dict().values())
            # Every rank draws other random numbers, for example for dropout.
            state.seed_everything(config.seed + RANK_SEED_STEP * self.ranks.rank)

    @abstractmethod
    def create_model(self) -> Any: ...

    @abstractmethod
    def batches(self, epoch: int, step: int) -> Iterator[tuple[Sequence[Any], Sequence[int | str]]]:
        """Yield (micro-batches, sample ids) for each step of an epoch, beginning with `step`.

        The gradients of all micro-batches of a step are added before the weights are updated. The micro-batches are
        the part of this rank, the sample ids are those of all ranks.
        """

    @abstractmethod
    def loss(self, part: Any) -> Any:
        """Return the loss of one micro-batch."""

    @abstractmethod
    def validate(self) -> Mapping[str, float]: ...

    @abstractmethod
    def export(self, format: str, directory: Path) -> Export: ...

    @abstractmethod
    def about(self) -> Mapping[str, str]:
        """Return the metadata that is stored with the weights, such as model name and classes."""

    def network(self) -> Any:
        """Return the module whose weights are saved."""
        return self.model

    def mode_of_training(self) -> None:
        self.model.train()

    # -- training steps ----------------------------------------------------------------------------

    def steps(self, epoch: int, first: int) -> Iterator[TrainStep]:
        self.mode_of_training()
        done = epoch * self.steps_per_epoch + first
        for step, (parts, samples) in enumerate(self.batches(epoch, first), start=done):
            rate = self.rate * self.schedule(step)
            yield TrainStep(self._step(parts, rate), rate, samples)

    def _step(self, parts: Sequence[Any], rate: float) -> float:
        """Do one training step: add up the gradients of all micro-batches, then update the weights once."""
        set_rate(self.optimizer, rate)
        self.optimizer.zero_grad(set_to_none=True)
        total = sum(self._add_gradients(part, len(parts)) for part in parts)
        if isinstance(self.ranks, TorchRanks):
            self.ranks.average_gradients(self._trained_parameters())
            total = self.ranks.mean(total)
        if self.options["clip"]:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options["clip"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return total

    def _trained_parameters(self) -> list[Any]:
        return [each for each in self.model.parameters() if each.requires_grad]

    def _add_gradients(self, part: Any, parts: int) -> float:
        with device.autocast(self.device, self.config.amp):
            loss = self.loss(part) / parts
        self.scaler.scale(loss).backward()
        return float(loss.detach())

    # -- optimiser and schedule --------------------------------------------------------------------

    def parameters(self) -> list[Any]:
        return [each for each in self.model.parameters() if each.requires_grad]

    def create_optimizer(self) -> Any:
        decay, momentum = self.options["weight_decay"], self.options["momentum"]
        return optimizer(self.config.optimizer, self.parameters(), self.rate, decay=decay, momentum=momentum)

    def create_schedule(self) -> Schedule:
        options = self.options
        return schedule(
            self.config.scheduler,
            self.steps_per_epoch * self.config.epochs,
            warmup=options["warmup_steps"],
            floor=options["floor"],
            every=options["step_epochs"] * self.steps_per_epoch,
            gamma=options["gamma"],
        )

    # -- saving and loading ------------------------------------------------------------------------

    def _parts(self) -> dict[str, state.Stateful]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def save(self, directory: Path) -> None:
        state.save(directory, self._parts(), self.ranks)

    def contribute_state(self) -> None:
        """Send the random state of this rank to rank 0, which is in `save`."""
        self.ranks.gather(state.random_state())

    def load(self, directory: Path) -> None:
        state.load(directory, self._parts(), self.ranks)

    def save_weights(self, path: Path) -> Path:
        return exports.save_weights(self.network(), path, self.about())

    def load_weights(self, path: Path) -> None:
        exports.load_weights(self.network(), path)
