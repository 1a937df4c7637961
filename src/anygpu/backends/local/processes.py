"""Finds and ends everything that belongs to an attempt, daemonised children included.

Every process of an attempt carries `ANYGPU_NAME=<name>` in the environment it was started with. A process can leave its
group and its parent, but not the environment the kernel recorded for it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from anygpu.agent.spare import UNNAMED

MARK = b"ANYGPU_NAME="
PROC = Path("/proc")


def marked() -> Mapping[str, list[int]]:
    """Attempt name -> ids of its living processes."""
    found: dict[str, list[int]] = {}
    for pid, name in _marks_in_proc() if PROC.is_dir() else _marks_by_ps():
        if pid != os.getpid():
            found.setdefault(name, []).append(pid)
    return found


def kill_all(name: str, within_s: float = 10) -> bool:
    """SIGKILL until nothing is left; new children of a forking script are caught by the next round."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        left = marked().get(name, [])
        if not left:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return not marked().get(name)


def _marks_in_proc() -> list[tuple[int, str]]:
    marks = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            name = _mark_of(entry)
            if name is not None:
                marks.append((int(entry.name), name))
    return marks


def _mark_of(entry: Path) -> str | None:
    try:
        environ = (entry / "environ").read_bytes()
        start = environ.find(MARK)
        if start < 0 or (start > 0 and environ[start - 1] != 0):
            return None
        if b") Z " in (entry / "stat").read_bytes():
            return None  # a zombie runs nothing
    except OSError:
        return None
    name = environ[start + len(MARK) :].split(b"\0", 1)[0].decode("utf-8", "replace")
    return None if name == UNNAMED else name


def _marks_by_ps() -> list[tuple[int, str]]:
    """macOS has no /proc; `ps -E` shows the environment of one's own processes."""
    flags = ["-E", "-ww", "-o", "pid=,command="] if sys.platform == "darwin" else ["-eww", "-o", "pid=,args="]
    done = subprocess.run(["ps", *flags], capture_output=True, check=False)
    marks = []
    for line in done.stdout.splitlines():
        pid, _, rest = line.strip().partition(b" ")
        _, found, after = rest.partition(MARK)
        if found and pid.isdigit():
            marks.append((int(pid), after.split(b" ", 1)[0].decode("utf-8", "replace")))
    return marks
