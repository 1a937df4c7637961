"""Trainers: name a framework, a dataset and a few settings, and get a trained, exported model.

Needs no server, no database and no web package: it runs in a notebook as it does on the machine of a job.

    from anygpu.trainers import get_trainer
    result = get_trainer(framework="yolo", dataset_path="helmets", output_dir="out", epochs=100).train()
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from anygpu.trainers.config import Accepts, TrainingConfig, make_config
from anygpu.trainers.context import Context, JobContext, LocalContext, PrintingContext, surrounding
from anygpu.trainers.contract import Trainer
from anygpu.trainers.errors import (
    BadConfig,
    BadDataset,
    BadExport,
    Finding,
    MissingExtra,
    NoSuchTrainer,
    TrainerError,
)
from anygpu.trainers.registry import find, names
from anygpu.trainers.result import Export, Timing, TrainingResult

__all__ = [
    "Accepts",
    "BadConfig",
    "BadDataset",
    "BadExport",
    "Context",
    "Export",
    "Finding",
    "JobContext",
    "LocalContext",
    "MissingExtra",
    "NoSuchTrainer",
    "PrintingContext",
    "Timing",
    "Trainer",
    "TrainerError",
    "TrainingConfig",
    "TrainingResult",
    "find",
    "get_trainer",
    "make_config",
    "names",
]


def get_trainer(
    framework: str,
    *,
    dataset_path: str | os.PathLike[str] | None = None,
    output_dir: str | os.PathLike[str] = "outputs",
    resume: bool = False,
    context: Context | None = None,
    **settings: Any,
) -> Trainer:
    """A trainer, ready to `.train()`. `resume`: go on from the output directory's last checkpoint.

    `settings` are those of TrainingConfig, and the framework's own by its own names.
    """
    kind = find(framework)
    output = Path(output_dir)
    return kind(
        kind.configured(settings),
        dataset_path=None if dataset_path is None else Path(dataset_path),
        output_dir=output,
        context=context or surrounding(output, resume=resume),
    )
