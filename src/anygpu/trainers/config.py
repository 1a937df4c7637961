"""Check the settings of a training: settings that all trainers share, and options of one framework."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.errors import BadConfig

# Other spellings of a setting, mapped to the name used here.
ALIASES = {
    "variant": "model",
    "model_name": "model",
    "model_variant": "model",
    "batch": "batch_size",
    "imgsz": "image_size",
    "img_size": "image_size",
    "input_size": "image_size",
    "model_type": "task",
    "lr": "learning_rate",
    "lr0": "learning_rate",
    "optimiser": "optimizer",
    "lr_scheduler": "scheduler",
    "random_state": "seed",
    "num_workers": "workers",
    "early_stopping": "patience",
    "mixed_precision": "amp",
    "export_formats": "export",
    "num_epochs": "epochs",
}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of a training. For a setting that is None or empty, the trainer uses its own default."""

    model: str = ""  # a model of the framework, such as yolo11n, resnet18 or random-forest
    weights: str = ""  # initial weights: a file or a name known to the framework; empty: from scratch
    task: str = ""
    epochs: int = 10
    batch_size: int = 16
    image_size: int | None = None
    learning_rate: float | None = None
    optimizer: str = ""
    scheduler: str = ""
    seed: int = 0
    amp: bool = False
    workers: int = 0  # number of data loader processes
    device: str = "auto"
    patience: int = 0  # stop after this many epochs without improvement; 0: never
    export: tuple[str, ...] = ("onnx",)
    val_fraction: float = 0.2  # fraction used for validation when the dataset defines no split
    # None: checkpoint as often as possible within 1 % of the training time; 0: after every step
    checkpoint_every_s: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # framework options, under the framework's names

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)


UNIVERSAL = {each.name for each in fields(TrainingConfig)} - {"options"}


@dataclass(frozen=True, kw_only=True)
class Accepts:
    """Which settings, and which values of them, a trainer accepts.

    If `tasks`, `optimizers`, `schedulers` or `exports` is empty, the trainer accepts any value for it.
    """

    tasks: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    any_option: bool = False  # accept every option name, for plugins
    optimizers: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    # Common settings that this trainer rejects because it has no use for them.
    ignores: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)


def make_config(trainer: str, accepts: Accepts, given: Mapping[str, Any]) -> TrainingConfig:
    """Build the configuration of a training from `given`; raise one BadConfig that lists every problem."""
    trouble: list[str] = []
    settings, options = _split_settings(trainer, accepts, given, trouble)
    merged = {**accepts.defaults, **settings}
    values = {name: _value(name, value, trouble) for name, value in merged.items()}
    if trouble:
        raise BadConfig("\n".join(trouble))
    config = replace(TrainingConfig(**values), options=options)
    trouble += _choice_problems(config, accepts)
    if trouble:
        raise BadConfig("\n".join(trouble))
    return config


def _split_settings(
    trainer: str, accepts: Accepts, given: Mapping[str, Any], trouble: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for spelled, value in {**given, **_flatten(given, trouble)}.items():
        name = spelled if spelled in accepts.options else ALIASES.get(spelled, spelled)
        if name in accepts.ignores:
            trouble.append(f"{spelled}: trainer {trainer!r} does not use this setting; remove it")
        elif name in UNIVERSAL:
            settings[name] = value
        elif spelled == "options":
            continue
        elif name in accepts.options or accepts.any_option:
            options[name] = value
        else:
            trouble.append(_unknown_setting_problem(trainer, spelled, accepts))
    return settings, options


def _flatten(given: Mapping[str, Any], trouble: list[str]) -> Mapping[str, Any]:
    nested = given.get("options") or {}
    if isinstance(nested, Mapping):
        return nested
    trouble.append(f"options: {nested!r} is not a mapping; write names and values, such as {{momentum: 0.9}}")
    return {}


def _unknown_setting_problem(trainer: str, name: str, accepts: Accepts) -> str:
    setting_names = (UNIVERSAL - accepts.ignores) | accepts.options
    return f"{name}: trainer {trainer!r} has no such setting{_hint(name, setting_names)}"


def _hint(name: str, candidates: Iterable[str]) -> str:
    hint = did_you_mean(name, sorted(candidates))
    return f"; {hint}" if hint else ""


def _value(name: str, value: Any, trouble: list[str]) -> Any:
    kind, check, wanted = KINDS[name]
    try:
        made = kind(value)
    except (TypeError, ValueError):
        made = None
    if made is None or not check(made):
        trouble.append(f"{name}: {value!r} is not {wanted}")
    return made


def _choice_problems(config: TrainingConfig, accepts: Accepts) -> list[str]:
    named = (
        ("task", (config.task,), accepts.tasks),
        ("optimizer", (config.optimizer,), accepts.optimizers),
        ("scheduler", (config.scheduler,), accepts.schedulers),
        ("export", config.export, accepts.exports),
    )
    return [
        f"{name}: {value!r} is not one of {', '.join(choices)}{_hint(value, choices)}"
        for name, values, choices in named
        for value in values
        if value and choices and value not in choices
    ]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or int(value) != float(value):
        raise ValueError(value)
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value.strip()


def _flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    flag = value if isinstance(value, bool) else words.get(str(value).lower())
    if flag is None:
        raise ValueError(value)
    return flag


def _names(value: Any) -> tuple[str, ...]:
    several = value.split(",") if isinstance(value, str) else value
    return tuple(_text(each) for each in several)


def _always(_: Any) -> bool:
    return True


_TEXT = (_text, _always, "text")
KINDS: Mapping[str, tuple[Any, Any, str]] = {
    **dict.fromkeys(("model", "weights", "task", "optimizer", "scheduler", "device"), _TEXT),
    "epochs": (_whole, lambda n: 1 <= n <= 1_000_000, "a whole number from 1 to 1,000,000"),
    "batch_size": (_whole, lambda n: 1 <= n <= 1_000_000, "a whole number from 1 to 1,000,000"),
    "image_size": (_whole, lambda n: 8 <= n <= 16_384, "a whole number of pixels from 8 to 16,384"),
    "learning_rate": (_number, lambda x: 0 < x < 1_000, "a number above 0 and below 1,000"),
    "seed": (_whole, lambda n: 0 <= n < 2**32, "a whole number from 0 to 4,294,967,295"),
    "amp": (_flag, _always, "true or false"),
    "workers": (_whole, lambda n: 0 <= n <= 1_000, "a whole number from 0 to 1,000"),
    "patience": (_whole, lambda n: n >= 0, "a whole number of epochs, 0 or more"),
    "export": (_names, _always, "a list of export formats, such as [onnx]"),
    "val_fraction": (_number, lambda x: 0 < x < 1, "a number between 0 and 1"),
    "checkpoint_every_s": (_number, lambda x: x >= 0, "a number of seconds, 0 or more"),
}
