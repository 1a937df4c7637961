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
    "weight_decay": SettingOption(default=0.1, about="weight decay of the optimizer"),
    "floor": SettingOption(default=0.1, high=1, about="scheduler cosine: final factor of the learning rate"),
    "clip": SettingOption(default=1.0, about="largest gradient norm; 0: no limit"),
    "warmup_steps": SettingOption(
        default=-1, low=-1, about="steps until the learning rate is reached; -1: 5 % of all steps"
    ),
    "layers": SettingOption(default=0, high=1_000, about="transformer layers; 0: the value of the model"),
    "heads": SettingOption(default=0, high=1_000, about="attention heads; 0: the value of the model"),
    "width": SettingOption(default=0, high=100_000, about="embedding width; 0: the value of the model"),
    "block_size": SettingOption(
        default=0, high=1_000_000, about="context length in tokens; 0: the value of the model"
    ),
    "dropout": SettingOption(default=0.1, high=0.99, about="dropout probability"),
    "steps_per_epoch": SettingOption(default=0, about="steps per epoch; 0: enough to cover the text once"),
    "accumulate": SettingOption(default=1, low=1, about="batches of gradient accumulation per step"),
    "level": SettingOption(default="characters", one_of=("characters", "bytes"), about="what a token is"),
    "sample_tokens": SettingOption(default=500, about="tokens of the sample that is written at the end"),
    "sample_start": SettingOption(default="\n", about="text with which the sample starts"),
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
