"""What a plugin is given as its config, and which of its metrics says how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.trainers.config import ALIASES, TrainingConfig

if TYPE_CHECKING:
    from anygpu.trainers.plugins.loaders import Loaders

# The first of these that a plugin reports decides which epoch is the best.
GOALS = (
    ("val_loss", "min"),
    ("val_accuracy", "max"),
    ("val_acc", "max"),
    ("mAP50-95", "max"),
    ("mAP", "max"),
    ("accuracy", "max"),
    ("loss", "min"),
    ("train_loss", "min"),
)


def given_config(
    config: TrainingConfig,
    loaders: Loaders,
    *,
    dataset: Path | None,
    output: Path,
    workplace: Path,
    resume_from: Path | None,
) -> dict[str, Any]:
    """Every setting under every name it goes by, and what is known of the data and the place."""
    settings = {name: value for name, value in asdict(config).items() if name != "options"}
    known = {name: value for name, value in settings.items() if value not in ("", None)}
    spelled = {alias: known[name] for alias, name in ALIASES.items() if name in known}
    around = {
        "classes": list(loaders.classes),
        "num_classes": len(loaders.classes),
        "dataset_path": None if dataset is None else str(dataset),
        "output_dir": str(output),
        "checkpoint_dir": str(workplace / "plugin-checkpoints"),
        "resume_from": None if resume_from is None else str(resume_from),
    }
    return {**spelled, **known, **around, **config.options}


def goal_among(metrics: Mapping[str, float], plugin: type[Any]) -> tuple[str, str]:
    """The plugin's own `goal`, or the first well-known metric it reports."""
    own = getattr(plugin, "goal", None)
    if isinstance(own, tuple):
        return own
    return next((goal for goal in GOALS if goal[0] in metrics), ("loss", "min"))
