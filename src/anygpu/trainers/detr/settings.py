"""Options of the detection transformers and their checks. Nothing here imports a framework."""

from __future__ import annotations

from collections.abc import Mapping

from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.torch.settings import COMMON, SCHEDULERS, SettingOption

TASKS = ("object-detection", "detect", "detection")
OPTIMIZERS = ("adamw", "adam", "sgd")
EXPORTS = ("onnx", "safetensors")
OPTIONS = {
    **COMMON,
    "clip": SettingOption(default=0.1, about="largest gradient norm; 0: no limit"),
    "augment": SettingOption(default=True, about="change the images at random while training"),
    "flip": SettingOption(default=0.5, high=1, about="probability of a horizontal flip"),
    "jitter": SettingOption(default=0.2, high=1, about="largest change of brightness, contrast and colour"),
    "backbone_rate": SettingOption(
        default=0.1, high=1, about="learning-rate factor of a pretrained backbone"
    ),
    "ema": SettingOption(default=0.0, high=0.999999, about="decay of the weight average; 0: no averaging"),
    "queries": SettingOption(default=300, low=1, high=3000, about="largest number of objects in an image"),
}
DEFAULTS = {
    "task": TASKS[0],
    "optimizer": "adamw",
    "scheduler": "cosine",
    "learning_rate": 1e-4,
    "batch_size": 4,
}


def accepts(options: Mapping[str, SettingOption], model: str) -> Accepts:
    return Accepts(
        tasks=TASKS,
        options=frozenset(options),
        optimizers=OPTIMIZERS,
        schedulers=SCHEDULERS,
        exports=EXPORTS,
        defaults={**DEFAULTS, "model": model},
    )


def check_image_size(config: TrainingConfig, multiple: int) -> None:
    if config.image_size and config.image_size % multiple:
        below = config.image_size // multiple * multiple or multiple
        raise BadConfig(
            f"image_size: {config.image_size} is not a multiple of {multiple}; use {below} or {below + multiple}"
        )
