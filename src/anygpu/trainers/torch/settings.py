"""Options with a default and bounds, checked where no framework is installed; and those of the classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.trainers.errors import BadConfig

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULERS = ("cosine", "step", "onecycle", "none")
USUAL_RATE = {"sgd": 0.05, "adam": 1e-3, "adamw": 1e-3}
SMALL = "small-cnn"
SMALLEST = 16  # pixels of an image it can take


@dataclass(frozen=True, kw_only=True)
class SettingOption:
    """What an option is unless it is set. Its default's type is its own; None: the trainer checks it itself."""

    default: Any
    low: float = 0
    high: float = math.inf
    one_of: tuple[str, ...] = ()

    def trouble(self, value: Any) -> str:
        """What is wrong with a value, in words."""
        if self.default is None:
            return ""
        if isinstance(self.default, str):
            known = isinstance(value, str) and (not self.one_of or value in self.one_of)
            return "" if known else f"{value!r} is not {' or '.join(self.one_of) or 'text'}"
        if isinstance(self.default, bool):
            return "" if isinstance(value, bool) else f"{value!r} is not true or false"
        return "" if self._is_number(value) else f"{value!r} is not {self._wanted()}"

    def _is_number(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (isinstance(self.default, float) or value == int(value))

    def _wanted(self) -> str:
        kind = "a number" if isinstance(self.default, float) else "a whole number"
        return f"{kind} from {self.low:g}" + ("" if self.high == math.inf else f" to {self.high:g}")


def read(known: Mapping[str, SettingOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option's value. BadConfig says all that is wrong."""
    found = {name: option.trouble(given[name]) for name, option in known.items() if name in given}
    trouble = [f"{name}: {what}" for name, what in found.items() if what]
    if trouble:
        raise BadConfig("\n".join(trouble))
    return {name: _like(option.default, given.get(name, option.default)) for name, option in known.items()}


def _like(default: Any, value: Any) -> Any:
    """3.0 where a whole number is meant is 3; 1 where a number is meant is 1.0."""
    return value if default is None else type(default)(value)


COMMON = {
    "threads": SettingOption(default=0),  # 0: torch's own choice
    "deterministic": SettingOption(default=False),  # kernels that add in a fixed order; slower on a GPU
    "weight_decay": SettingOption(default=1e-4),
    "momentum": SettingOption(default=0.9, high=1),  # of sgd
    "warmup_steps": SettingOption(default=0),
    "step_epochs": SettingOption(default=0),  # of the scheduler `step`; 0: a third of the training
    "gamma": SettingOption(default=0.1, high=1),  # what it multiplies the learning rate by
    "floor": SettingOption(
        default=0.0, high=1
    ),  # of cosine: what part of the learning rate is left at the end
    "clip": SettingOption(default=0.0),  # longest gradient; 0: any
}
CLASSIFIER = {
    **COMMON,
    "augment": SettingOption(default=True),
    "flip": SettingOption(default=0.5, high=1),  # how often an image is mirrored
    "crop": SettingOption(
        default=0.6, low=0.01, high=1
    ),  # smallest part of the largest square in it that is kept
    "rotate": SettingOption(default=0.0, high=180),  # degrees, either way
    "jitter": SettingOption(default=0.2, high=1),  # of brightness, contrast and colour
    "freeze": SettingOption(default=False),
    "label_smoothing": SettingOption(default=0.0, high=0.99),
    "class_weights": SettingOption(default=None),
}


def check_class_weights(wanted: Any) -> None:
    numbers = isinstance(wanted, list | tuple) and all(
        isinstance(each, int | float) and each >= 0 for each in wanted
    )
    if wanted not in (None, "balanced") and not numbers:
        raise BadConfig(
            f"class_weights: {wanted!r} is neither 'balanced' nor a list of numbers, one for each class"
        )
