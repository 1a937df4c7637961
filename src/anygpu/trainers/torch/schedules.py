"""Optimisers by name, and the learning rate of each step as a function of the step: nothing of it needs saving."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

Schedule = Callable[[int], float]  # step, from 0 -> part of the learning rate


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
    """`every`: of `step`: after how many steps the rate is multiplied by `gamma`."""
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
    """Up for three tenths of the training, then down to almost nothing, both along a cosine."""
    if done < rising:
        return 1 - (1 - start) * 0.5 * (1 + math.cos(math.pi * done / rising))
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * min(1.0, (done - rising) / (1 - rising))))
