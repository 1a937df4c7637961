"""Options of the `nanogpt` trainer. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.torch.settings import COMMON, SettingOption, read

SIZES: Mapping[str, Mapping[str, int]] = {
    "gpt-nano": {"layers": 3, "heads": 3, "width": 48, "block_size": 64},
    "gpt-micro": {"layers": 4, "heads": 4, "width": 128, "block_size": 128},
    "gpt-mini": {"layers": 6, "heads": 6, "width": 384, "block_size": 256},
    "gpt2": {"layers": 12, "heads": 12, "width": 768, "block_size": 1024},
}
DEFAULT = "gpt-micro"
SHAPE = ("layers", "heads", "width", "block_size", "dropout")
OPTIONS = {
    **COMMON,
    "weight_decay": SettingOption(default=0.1),
    "floor": SettingOption(default=0.1, high=1),
    "clip": SettingOption(default=1.0),
    "warmup_steps": SettingOption(default=-1, low=-1),  # -1: 5 % of all steps
    "layers": SettingOption(default=0, high=1_000),  # 0, here and below: the value of the chosen model
    "heads": SettingOption(default=0, high=1_000),
    "width": SettingOption(default=0, high=100_000),
    "block_size": SettingOption(default=0, high=1_000_000),
    "dropout": SettingOption(default=0.1, high=0.99),
    "steps_per_epoch": SettingOption(default=0),  # 0: enough to cover the text once
    "accumulate": SettingOption(default=1, low=1),  # batches of gradient accumulation per step
    "level": SettingOption(default="characters", one_of=("characters", "bytes")),
    "sample_tokens": SettingOption(default=500),
    "sample_start": SettingOption(default="\n"),
}


def options(config: TrainingConfig) -> dict[str, Any]:
    """Return the value of every option. The dimensions are those of the chosen model."""
    if config.model not in SIZES:
        raise BadConfig(
            f"model: {config.model!r} is not one of {', '.join(SIZES)}; for other sizes, set layers, heads or width"
        )
    values = read(OPTIONS, config.options)
    sizes = {name: values[name] or size for name, size in SIZES[config.model].items()}
    if sizes["width"] % sizes["heads"]:
        raise BadConfig(
            f"width: {sizes['width']} is not a multiple of heads ({sizes['heads']}); change one of them"
        )
    return {**values, **sizes}
