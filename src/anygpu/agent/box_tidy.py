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


def tidy(attempts: str, alive: Container[str]) -> list[str]:
    """The names whose directories were removed."""
    names = [name for name in _names(attempts) if name not in alive and _is_old(os.path.join(attempts, name))]
    for name in names:
        shutil.rmtree(os.path.join(attempts, name), ignore_errors=True)
    return names


def _names(attempts: str) -> list[str]:
    try:
        return [name for name in os.listdir(attempts) if name.startswith("anygpu-")]
    except FileNotFoundError:
        return []


def _is_old(directory: str) -> bool:
    """An agent removes its work order once the end is told."""
    kept_s = UNTOLD_S if os.path.exists(os.path.join(directory, "work.json")) else TOLD_S
    times = [os.stat(path).st_mtime for path in (directory, *_jsons(directory))]
    return time.time() - max(times) > kept_s


def _jsons(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json")]
