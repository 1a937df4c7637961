"""Send metrics to MLflow, Weights & Biases and TensorBoard.

The job spec (`track`) or `get_trainer(track=...)` selects the trackers.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.context import Context
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.trackers.tracking import TrackedRun, Tracker, TrackerSender, TrackingContext

__all__ = ["ENVIRONMENT", "NAMES", "TrackedRun", "Tracker", "requested_trackers", "with_trackers"]

ENVIRONMENT = "ANYGPU_TRACK"  # the job spec's `track`, as JSON
NAMES = ("mlflow", "wandb", "tensorboard")


def requested_trackers(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the requested trackers by name, each with its value: True, an address, a project or a directory.

    If `given` is None, they are read from the environment variable in which the agent puts the job's `track`.
    """
    requested = json.loads(os.environ.get(ENVIRONMENT) or "{}") if given is None else given
    unknown = sorted(set(requested) - {*NAMES, "tags"})
    if unknown:
        raise BadConfig(f"track: there is no tracker {unknown[0]!r}; there are {', '.join(NAMES)}")
    return {name: value for name, value in requested.items() if value}


def with_trackers(
    context: Context, requested: Mapping[str, Any], *, trainer: str, config: TrainingConfig, output: Path
) -> Context:
    """Wrap a context so that it also reports to the trackers. Without trackers, return it unchanged."""
    names = [name for name in NAMES if name in requested]
    if not names:
        return context
    key = _key(output, resumed=context.restore() is not None)
    run = TrackedRun(
        key=key,
        name=f"{trainer} {key[:8]}",
        trainer=trainer,
        settings=_settings(config),
        tags=tuple(requested.get("tags", ())),
        output=output,
    )
    senders = [_start_sender(name, requested[name], run) for name in names]
    return TrackingContext(context, [each for each in senders if each is not None])


def _start_sender(name: str, value: Any, run: TrackedRun) -> TrackerSender | None:
    try:
        return TrackerSender(_tracker(name, "" if value is True else str(value), run))
    except ImportError as error:
        sys.stderr.write(
            f"track.{name}: this training is not tracked because {error.name or name} is not installed:"
            f" pip install 'anygpu[{name}]'\n"
        )
        return None


def _tracker(name: str, value: str, run: TrackedRun) -> Tracker:
    if name == "mlflow":
        from anygpu.trainers.trackers.mlflow import Mlflow

        return Mlflow(value, run)
    if name == "wandb":
        from anygpu.trainers.trackers.wandb import Wandb

        return Wandb(value, run)
    from anygpu.trainers.trackers.tensorboard import TensorBoard

    return TensorBoard(value, run)


def _key(output: Path, *, resumed: bool) -> str:
    """Return the key by which a tracker finds the run of a resumed training.

    In a job this is the job id; outside a job, a random id that is stored in the output directory.
    """
    job = os.environ.get("ANYGPU_JOB_ID")
    if job:
        return job
    kept = output / "tracked-run.txt"
    if resumed and kept.exists():
        return kept.read_text().strip()
    output.mkdir(parents=True, exist_ok=True)
    kept.write_text(uuid.uuid4().hex)
    return kept.read_text()


def _settings(config: TrainingConfig) -> dict[str, Any]:
    flat = asdict(config)
    options = flat.pop("options")
    return {name: value for name, value in {**flat, **options}.items() if value not in ("", None)}
