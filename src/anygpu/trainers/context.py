"""The world around a training: where its numbers go, where its checkpoints are kept, whether it should stop."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from anygpu import job

LOGGED = 6  # metrics in a line of the log; the curves have them all


@dataclass(frozen=True)
class At:
    """Where a training is: steps and epochs completed, and how many there are to be. None: not known here."""

    step: int
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None


@runtime_checkable
class Context(Protocol):
    """What a trainer may tell, and ask."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        """Numbers, and where in the training they were measured."""
        ...

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        """`path`, a directory, is a whole checkpoint. It may be overwritten when this returns."""
        ...

    def restore(self) -> Path | None:
        """The checkpoint to go on from; None: start afresh."""
        ...

    def should_stop(self) -> bool: ...

    def workplace(self, output_dir: Path) -> Path:
        """Where checkpoints are written before they are told of."""
        ...

    def best(self, path: Path) -> None:
        """These are the best weights so far."""
        ...

    def artifact(self, path: Path) -> None:
        """A result worth keeping."""
        ...


@runtime_checkable
class EndAware(Protocol):
    """A context that has something to do when training has ended."""

    def end(self, status: str) -> None:
        """`finished`, `failed`, or `stopped` to go on later."""
        ...


@runtime_checkable
class CheckpointExtender(Protocol):
    """A context that has something of its own to come back with a checkpoint."""

    def add_to(self, draft: Path) -> None:
        """`draft` is about to become a checkpoint: what is written into it now is there whenever it is."""
        ...


class JobContext:
    """Inside an anygpu job: the agent is told, and keeps the checkpoints."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        job.progress(step=at.step, steps=at.steps, epoch=at.epoch, epochs=at.epochs)
        if metrics:
            job.log(metrics, step=at.step)
        if metrics and at.epoch is not None:
            sys.stderr.write(_epoch(metrics, at))

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        job.checkpoint(path, step=step, wait=wait)

    def restore(self) -> Path | None:
        found = job.resume_path()
        return Path(found) if found else None

    def should_stop(self) -> bool:
        return job.should_stop()

    def workplace(self, output_dir: Path) -> Path:
        """Not among the outputs: those are all published, and the agent keeps the checkpoints already."""
        kept = os.environ.get("ANYGPU_CHECKPOINT_DIR")
        return Path(kept).parent / "training" if kept else output_dir

    def best(self, path: Path) -> None:
        job.best(path)

    def artifact(self, path: Path) -> None:
        """What lies among the job's outputs is published with them."""
        outputs = Path(os.environ.get("ANYGPU_OUTPUT_DIR") or os.devnull)
        if outputs.resolve() not in path.resolve().parents:
            job.artifact(path)


class LocalContext:
    """A notebook or a plain script: everything stays in the output directory, and `last` is what to resume from."""

    def __init__(self, output_dir: Path, *, resume: bool = False, bar: bool | None = None) -> None:
        """`resume`: go on from this directory's last checkpoint. `bar`: None: when somebody is looking."""
        places = output_dir / "checkpoints"
        self._checkpoints = (places / "last", places / "previous")
        self._resume = resume
        self._bar = sys.stderr.isatty() if bar is None else bar

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        if self._bar:
            sys.stderr.write(_bar(metrics, at))
            sys.stderr.flush()

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        """It lies where it was written: the trainer's own directory is the place to resume from."""

    def restore(self) -> Path | None:
        whole = (place for place in self._checkpoints if place.is_dir())
        return next(whole, None) if self._resume else None

    def should_stop(self) -> bool:
        return False

    def workplace(self, output_dir: Path) -> Path:
        return output_dir

    def best(self, path: Path) -> None:
        """It is in the output directory already."""

    def artifact(self, path: Path) -> None:
        """It is in the output directory already."""


class PrintingContext(LocalContext):
    """A script run by hand on any machine: progress as lines of JSON on standard output."""

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        place = {"step": at.step, "total_steps": at.steps, "epoch": at.epoch, "total_epochs": at.epochs}
        said = {**place, **metrics}
        data = {name: value for name, value in said.items() if value is not None}
        sys.stdout.write(json.dumps({"type": "progress", "data": data}) + "\n")
        sys.stdout.flush()


def current_context(output_dir: Path, *, resume: bool = False) -> Context:
    """The job's, inside one; else the output directory's."""
    return JobContext() if os.environ.get("ANYGPU_DIR") else LocalContext(output_dir, resume=resume)


def _epoch(metrics: Mapping[str, float], at: At) -> str:
    """A line of the log: who follows the output, not the curves, sees that it trains."""
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in list(metrics.items())[:LOGGED])
    return f"after {at.epoch} of {at.epochs or '?'} epochs  {numbers}\n"


def _bar(metrics: Mapping[str, float], at: At) -> str:
    width = 24
    done = min(1.0, at.step / at.steps) if at.steps else 0.0
    drawn = "━" * round(width * done) + "─" * (width - round(width * done))
    numbers = "  ".join(f"{name} {value:.4g}" for name, value in list(metrics.items())[:4])
    end = "\n" if at.epoch is not None and metrics else ""
    return f"\r\x1b[K{drawn} {done:4.0%}  epoch {at.epoch or 0}/{at.epochs or '?'}  step {at.step}  {numbers}{end}"
