"""Removes the directories of attempts that ended. They are kept a day for whoever wants to look at them."""

import shutil
from collections.abc import Container
from pathlib import Path

DAY_S = 86_400.0
TOLD_S = 1 * DAY_S
UNTOLD_S = 30 * DAY_S  # its agent could not deliver everything; what it left may still be wanted


def tidy(attempts: Path, alive: Container[str], now: float) -> list[str]:
    """The names whose directories were removed."""
    old = [
        directory
        for directory in attempts.glob("anygpu-*/")
        if directory.name not in alive and now - _touched(directory) > _kept_for_s(directory)
    ]
    for directory in old:
        shutil.rmtree(directory, ignore_errors=True)
    return [directory.name for directory in old]


def _kept_for_s(directory: Path) -> float:
    """An agent removes its work order once the end is told."""
    return UNTOLD_S if (directory / "work.json").exists() else TOLD_S


def _touched(directory: Path) -> float:
    return max(path.stat().st_mtime for path in (directory, *directory.glob("*.json")))
