"""Removes the directories of attempts that ended. They are kept a day for whoever wants to look at them."""

from __future__ import annotations

import os
import shutil
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

DAY_S = 86_400.0
TOLD_S = 1 * DAY_S
UNTOLD_S = 30 * DAY_S  # its agent could not deliver everything; what it left may still be wanted


def tidy(attempts: str, alive: Container[str], now: float | None = None) -> list[str]:
    """The names whose directories were removed."""
    now = time.time() if now is None else now
    dead = [name for name in _names(attempts) if name not in alive]
    old = [name for name in dead if now - _touched(os.path.join(attempts, name)) > _kept_s(attempts, name)]
    for name in old:
        shutil.rmtree(os.path.join(attempts, name), ignore_errors=True)
    return old


def _names(attempts: str) -> list[str]:
    try:
        found = [name for name in os.listdir(attempts) if name.startswith("anygpu-")]
    except FileNotFoundError:
        return []
    return [name for name in found if os.path.isdir(os.path.join(attempts, name))]


def _kept_s(attempts: str, name: str) -> float:
    """An agent removes its work order once the end is told."""
    return UNTOLD_S if os.path.exists(os.path.join(attempts, name, "work.json")) else TOLD_S


def _touched(directory: str) -> float:
    return max(os.stat(path).st_mtime for path in (directory, *_jsons(directory)))


def _jsons(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json")]
