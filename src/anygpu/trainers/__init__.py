"""Trainers: train and export a model, given a framework, a dataset and settings.

Trainers need no server, no database and no web package. They run in a notebook and inside a job.

    from anygpu.trainers import get_trainer
    result = get_trainer(framework="yolo", dataset_path="helmets", output_dir="out", epochs=100).train()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.trainers.config import Accepts, TrainingConfig, make_config
from anygpu.trainers.context import At, Context, JobContext, LocalContext, PrintingContext, current_context
from anygpu.trainers.contract import AnyTrainer, Trainer
from anygpu.trainers.errors import (
    BadConfig,
    BadDataset,
    BadExport,
    Finding,
    MissingExtra,
    NoSuchTrainer,
    TrainerError,
)
from anygpu.trainers.ranks import SilentContext, rank_from_environment
from anygpu.trainers.registry import find, names
from anygpu.trainers.result import Export, Timing, TrainingResult
from anygpu.trainers.trackers import requested_trackers, with_trackers

__all__ = [
    "Accepts",
    "AnyTrainer",
    "At",
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
    track: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AnyTrainer:
    """Return a configured trainer; call its `train()` method to start.

    `resume`: continue from the last checkpoint in the output directory.
    `track`: experiment trackers to use, such as `{"mlflow": True, "wandb": "my-project"}`.
    None: the trackers that the job spec names under `track`; outside a job, none.
    `settings`: the fields of TrainingConfig, and options of the framework under the names the framework uses.
    """
    kind = find(framework)
    output = Path(output_dir)
    config = kind.parse_settings(settings)
    surroundings = context or current_context(output, resume=resume)
    if rank_from_environment() > 0:
        surroundings, track = SilentContext(surroundings), {}
    return kind(
        config,
        dataset_path=None if dataset_path is None else Path(dataset_path),
        output_dir=output,
        context=with_trackers(
            surroundings, requested_trackers(track), trainer=kind.name, config=config, output=output
        ),
    )
