"""Contexts connect a trainer to the place it runs in, a job or a notebook.

They take metrics, checkpoints and result files, and say when training should stop.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from anygpu import job

LOGGED = 6  # metrics per log line; all metrics are reported to the job


@dataclass(frozen=True)
class At:
    """A position in a training: completed steps and epochs, and the planned totals. None means unknown."""

    step: int
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None


@runtime_checkable
class Context(Protocol):
    """Interface between a trainer and the place it runs in: a job, a notebook or a script."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        """Report metrics measured at position `at`."""
        ...

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        """Store the checkpoint in directory `path`, which must be complete.

        The caller may overwrite the directory afterwards. `wait`: return only after the checkpoint is stored.
        """
        ...

    def restore(self) -> Path | None:
        """Return the directory of the checkpoint to resume from, or None to start from the beginning."""
        ...

    def should_stop(self) -> bool: ...

    def workplace(self, output_dir: Path) -> Path:
        """Return the directory in which the trainer writes its checkpoints."""
        ...

    def best(self, path: Path) -> None:
        """Report the file with the best weights so far."""
        ...

    def artifact(self, path: Path) -> None:
        """Publish `path` as a result file of the training."""
        ...


@runtime_checkable
class EndAware(Protocol):
    """A context that is notified when training ends."""

    def end(self, status: str) -> None:
        """Handle the end of training. `status` is finished, failed, or stopped (to be resumed later)."""
        ...


@runtime_checkable
class CheckpointExtender(Protocol):
    """A context that stores its own files in each checkpoint."""

    def add_to(self, draft: Path) -> None:
        """Write files into `draft`, the directory of a checkpoint that is still being written."""
        ...


class JobContext:
    """Context inside an anygpu job: reports to the agent, which stores the checkpoints."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        job.progress(step=at.step, steps=at.steps, epoch=at.epoch, epochs=at.epochs)
        if metrics:
            job.log(metrics, step=at.step)
        if metrics and at.epoch is not None:
            sys.stderr.write(_epoch(metrics, at))

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        job.checkpoint(path, step=step, wait=wait)

    def restore(self) -> Path | None:
        path = job.resume_path()
        return Path(path) if path else None

    def should_stop(self) -> bool:
        return job.should_stop()

    def workplace(self, output_dir: Path) -> Path:
        """Return a directory outside `output_dir`, because every file in `output_dir` becomes a job result."""
        kept = os.environ.get("ANYGPU_CHECKPOINT_DIR")
        return Path(kept).parent / "training" if kept else output_dir

    def best(self, path: Path) -> None:
        job.best(path)

    def artifact(self, path: Path) -> None:
        """Publish `path`, unless it is in the job's output directory: the agent publishes that directory."""
        outputs = Path(os.environ.get("ANYGPU_OUTPUT_DIR") or os.devnull)
        if outputs.resolve() not in path.resolve().parents:
            job.artifact(path)


class LocalContext:
    """Context of a notebook or script outside a job: all files stay in the output directory."""

    def __init__(self, output_dir: Path, *, resume: bool = False, bar: bool | None = None) -> None:
        """Create a context for `output_dir`.

        `resume`: continue from the last checkpoint in this directory.
        `bar`: show a progress bar; None: only if standard error is a terminal.
        """
        places = output_dir / "checkpoints"
        self._checkpoints = (places / "last", places / "previous")
        self._resume = resume
        self._bar = sys.stderr.isatty() if bar is None else bar

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        if self._bar:
            sys.stderr.write(_bar(metrics, at))
            sys.stderr.flush()

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        """Do nothing: the checkpoint stays where the trainer wrote it."""

    def restore(self) -> Path | None:
        whole = (place for place in self._checkpoints if place.is_dir())
        return next(whole, None) if self._resume else None

    def should_stop(self) -> bool:
        return False

    def workplace(self, output_dir: Path) -> Path:
        return output_dir

    def best(self, path: Path) -> None:
        """Do nothing: the file is already in the output directory."""

    def artifact(self, path: Path) -> None:
        """Do nothing: the file is already in the output directory."""


class PrintingContext(LocalContext):
    """Context that prints progress as JSON lines on standard output, for scripts run by hand."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        place = {"step": at.step, "total_steps": at.steps, "epoch": at.epoch, "total_epochs": at.epochs}
        values = {**place, **metrics}
        data = {name: value for name, value in values.items() if value is not None}
        sys.stdout.write(json.dumps({"type": "progress", "data": data}) + "\n")
        sys.stdout.flush()


def current_context(output_dir: Path, *, resume: bool = False) -> Context:
    """Return a JobContext inside an anygpu job, else a LocalContext."""
    return JobContext() if os.environ.get("ANYGPU_DIR") else LocalContext(output_dir, resume=resume)


def _epoch(metrics: Mapping[str, float], at: At) -> str:
    """Return the line that is printed after an epoch, with its metrics."""
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in list(metrics.items())[:LOGGED])
    return f"after {at.epoch} of {at.epochs or '?'} epochs  {numbers}\n"


def _bar(metrics: Mapping[str, float], at: At) -> str:
    width = 24
    done = min(1.0, at.step / at.steps) if at.steps else 0.0
    drawn = "━" * round(width * done) + "─" * (width - round(width * done))
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in list(metrics.items())[:4])
    end = "\n" if at.epoch is not None and metrics else ""
    return f"\r\x1b[K{drawn} {done:4.0%}  epoch {at.epoch or 0}/{at.epochs or '?'}  step {at.step}  {numbers}{end}"
