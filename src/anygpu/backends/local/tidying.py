"""Removes the directories of attempts that ended, as on any other machine; see `anygpu.agent.box_tidy`."""

from collections.abc import Container
from pathlib import Path

from anygpu.agent import box_tidy
from anygpu.agent.box_tidy import DAY_S

__all__ = ["DAY_S", "tidy"]


def tidy(attempts: Path, alive: Container[str], now: float) -> list[str]:
    """The names whose directories were removed."""
    return box_tidy.tidy(str(attempts), alive, now)
