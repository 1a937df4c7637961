"""Wait for a condition, and check whether a process runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def spooled(directory: Path) -> bytes:
    """The reports that an agent has stored in its directory and not removed yet."""
    content = b""
    for path in sorted((directory / "spool").glob("*.frames")):
        with suppress(FileNotFoundError):
            content += path.read_bytes()
    return content


def until(truth: Callable[[], bool], timeout_s: float = 60.0) -> None:
    limit = time.monotonic() + timeout_s
    while not truth():
        assert time.monotonic() < limit, "never came true"
        time.sleep(0.02)
