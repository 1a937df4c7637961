"""Which process is which, for those who look later."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def identity(pid: int) -> dict[str, Any]:
    """A pid and when it began, in the kernel's own ticks.

    Together they name one process and never another.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start_ticks: int | None = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        start_ticks = None
    return {"pid": pid, "start_ticks": start_ticks, "at": time.time()}
