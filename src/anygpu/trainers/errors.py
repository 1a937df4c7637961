"""What can be wrong before or while a model is trained, said so that a person can act on it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class TrainerError(Exception):
    """Training cannot go on, and the message says what to change."""


class BadConfig(TrainerError):
    """A setting is unknown, or its value does not fit."""


class MissingExtra(TrainerError):
    """The framework is not installed."""

    def __init__(self, trainer: str, module: str, extra: str) -> None:
        super().__init__(
            f"trainer {trainer!r} needs {module}, which is not installed in {sys.executable}: "
            f"pip install 'anygpu[{extra}]' there, or name an interpreter that has it (--python, `python` in the job)"
        )
        self.extra = extra


class NoSuchTrainer(TrainerError):
    """No trainer has this name."""


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a dataset: where, and what."""

    path: Path
    what: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        return f"{where}: {self.what}"


class BadDataset(TrainerError):
    """The dataset cannot be trained on."""

    SHOWN = 20

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        shown = [str(finding) for finding in self.findings[: self.SHOWN]]
        if len(self.findings) > self.SHOWN:
            shown.append(f"and {len(self.findings) - self.SHOWN:,} more")
        super().__init__("\n".join(shown))


class BadExport(TrainerError):
    """An exported model does not do what the trained one does."""


class Stopped(Exception):
    """Training was asked to stop, and has saved. Raised through `train_epoch` by `step_done`."""
