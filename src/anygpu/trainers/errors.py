"""Errors of the trainers, with messages that say what to change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class TrainerError(Exception):
    """Base class of errors that end a training. The message says what the user has to change."""


class BadConfig(TrainerError):
    """A setting is unknown or has an invalid value."""


class MissingExtra(TrainerError):
    """A module that the trainer needs is not installed in this Python interpreter."""

    def __init__(self, trainer: str, module: str, extra: str) -> None:
        super().__init__(
            f"trainer {trainer!r} needs {module}, which is not installed for {sys.executable}: run "
            f"pip install 'anygpu[{extra}]' there, or name an interpreter that has it (--python, `python` in the job)"
        )
        self.extra = extra


class NoSuchTrainer(TrainerError):
    """No trainer has the requested name, or the named object is not a trainer."""


@dataclass(frozen=True)
class Finding:
    """One problem that was found in a dataset: file, line and description."""

    path: Path
    what: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{where}: {self.what}"


class BadDataset(TrainerError):
    """The dataset cannot be used for training; `findings` lists all problems."""

    SHOWN = 20

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        shown = [str(finding) for finding in self.findings[: self.SHOWN]]
        if len(self.findings) > self.SHOWN:
            shown.append(f"and {len(self.findings) - self.SHOWN:,} more problems")
        super().__init__("\n".join(shown))


class BadExport(TrainerError):
    """The outputs of an exported model differ from those of the trained model."""


class Stopped(Exception):
    """Raised by `step_done` and `epoch_done` after a stop request, when a checkpoint is saved; ends the training."""
