"""Options of the PyTorch trainers, with defaults and bounds. They can be checked without torch."""

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
SMALLEST = 16  # smallest image size of the small CNN, in pixels


@dataclass(frozen=True, kw_only=True)
class SettingOption:
    """Default, bounds and description of one option.

    A value must have the type of the default. If the default is None, the trainer checks the value itself.
    """

    default: Any
    low: float = 0
    high: float = math.inf
    one_of: tuple[str, ...] = ()
    about: str = ""

    def trouble(self, value: Any) -> str:
        """Return what is wrong with a value of this option; an empty string if it is valid."""
        if self.default is None:
            return ""
        if isinstance(self.default, str):
            is_valid = isinstance(value, str) and (not self.one_of or value in self.one_of)
            return "" if is_valid else f"{value!r} is not {' or '.join(self.one_of) or 'text'}"
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


def read(options: Mapping[str, SettingOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every option, given or default. Raise one BadConfig that lists all invalid values."""
    problems = {name: option.trouble(given[name]) for name, option in options.items() if name in given}
    trouble = [f"{name}: {what}" for name, what in problems.items() if what]
    if trouble:
        raise BadConfig("\n".join(trouble))
    return {name: _like(option.default, given.get(name, option.default)) for name, option in options.items()}


def _like(default: Any, value: Any) -> Any:
    """Convert a value to the type of the option's default, for example 3.0 to 3."""
    return value if default is None else type(default)(value)


COMMON = {
    "threads": SettingOption(default=0, about="CPU threads; 0: as torch chooses"),
    "deterministic": SettingOption(
        default=False, about="use deterministic kernels, which are slower on a GPU"
    ),
    "weight_decay": SettingOption(default=1e-4, about="weight decay of the optimizer"),
    "momentum": SettingOption(default=0.9, high=1, about="momentum of the optimizer sgd"),
    "warmup_steps": SettingOption(default=0, about="steps until the learning rate is reached"),
    "step_epochs": SettingOption(
        default=0, about="scheduler step: epochs between two changes; 0: a third of the epochs"
    ),
    "gamma": SettingOption(default=0.1, high=1, about="scheduler step: factor of the learning rate"),
    "floor": SettingOption(default=0.0, high=1, about="scheduler cosine: final factor of the learning rate"),
    "clip": SettingOption(default=0.0, about="largest gradient norm; 0: no limit"),
}
CLASSIFIER = {
    **COMMON,
    "augment": SettingOption(default=True, about="change the images at random while training"),
    "flip": SettingOption(default=0.5, high=1, about="probability of a horizontal flip"),
    "crop": SettingOption(
        default=0.6,
        low=0.01,
        high=1,
        about="smallest area of a crop, as a fraction of the largest square in the image",
    ),
    "rotate": SettingOption(default=0.0, high=180, about="largest rotation in either direction, in degrees"),
    "jitter": SettingOption(default=0.2, high=1, about="largest change of brightness, contrast and colour"),
    "freeze": SettingOption(default=False, about="train only the last layer; needs pretrained weights"),
    "label_smoothing": SettingOption(default=0.0, high=0.99, about="label smoothing of the loss"),
    "class_weights": SettingOption(default=None, about="'balanced', or a list with a weight for each class"),
}


def check_class_weights(wanted: Any) -> None:
    numbers = isinstance(wanted, list | tuple) and all(
        isinstance(each, int | float) and each >= 0 for each in wanted
    )
    if wanted not in (None, "balanced") and not numbers:
        raise BadConfig(
            f"class_weights: {wanted!r} is not valid; set 'balanced', or a list of numbers, one for each class"
        )
