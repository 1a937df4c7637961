"""How good a classifier is: accuracy, top-5 accuracy, and F1 of every class; and how much each class counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anygpu.trainers.errors import BadConfig

TOP = 5


class Scores:
    """Counts answers, batch by batch."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self._confusion = torch.zeros(len(classes), len(classes), dtype=torch.int64)
        self._in_top = 0

    def add(self, logits: Any, labels: Any) -> None:
        count = len(self._classes)
        places = labels.cpu() * count + logits.argmax(1).cpu()
        self._confusion += torch.bincount(places, minlength=count * count).view(count, count)
        if count > TOP:
            self._in_top += int((logits.topk(TOP).indices == labels[:, None]).any(1).sum())

    def metrics(self) -> dict[str, float]:
        confusion = self._confusion.double()
        total = max(1.0, float(confusion.sum()))
        f1 = _f1(confusion)
        top = {f"top{TOP}_accuracy": self._in_top / total} if len(self._classes) > TOP else {}
        each = {f"f1/{name}": value for name, value in zip(self._classes, f1, strict=True)}
        return {"accuracy": float(confusion.trace()) / total, **top, "f1": sum(f1) / len(f1), **each}


def _f1(confusion: Any) -> list[float]:
    right = confusion.diagonal()
    possible = confusion.sum(0) + confusion.sum(1)
    found: list[float] = torch.where(possible > 0, 2 * right / possible.clamp(min=1), 0.0).tolist()
    return found


def class_weights(wanted: Any, labels: Sequence[int], classes: int) -> Any:
    """`balanced`: rare classes count as much as common ones; or one number for each class; None: all images alike."""
    if wanted is None:
        return None
    if wanted == "balanced":
        counts = torch.bincount(torch.tensor(labels), minlength=classes).clamp(min=1)
        return len(labels) / (classes * counts)
    if isinstance(wanted, list | tuple) and len(wanted) == classes:
        return torch.tensor([float(each) for each in wanted])
    raise BadConfig(
        f"class_weights: {wanted!r} is neither 'balanced' nor {classes} numbers, one for each class"
    )
