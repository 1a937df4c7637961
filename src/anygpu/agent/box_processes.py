"""Finds and ends everything on this machine that belongs to an attempt, daemonised children included.

Every process of an attempt carries `ANYGPU_NAME=<name>` in the environment it was started with. A process can leave its
group and its parent, but not the environment the kernel recorded for it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from anygpu.agent.spare import UNNAMED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = b"ANYGPU_NAME="
CLEAN_LOOKS = 2
NOBODY = ("", UNNAMED)  # an agent that was started ahead belongs to no attempt yet


def marked() -> dict[str, list[int]]:
    """Attempt name -> ids of its living processes."""
    found: dict[str, list[int]] = {}
    for pid, name in _marks_in_proc() if os.path.isdir("/proc/self") else _marks_by_ps():
        if pid != os.getpid() and name not in NOBODY:
            found.setdefault(name, []).append(pid)
    return found


def kill_all(name: str, within_s: float = 10.0) -> bool:
    """SIGKILL until nothing is left; new children of a forking script are caught by the next round.

    A process that is just being replaced by another program shows no environment for a moment: one look is not enough.
    """
    end, clean = time.monotonic() + within_s, 0
    while time.monotonic() < end:
        left = marked().get(name, [])
        clean = 0 if left else clean + 1
        if clean >= CLEAN_LOOKS:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return not marked().get(name)


def _marks_in_proc() -> Iterator[tuple[int, str]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            name = _mark_of(f"/proc/{entry}")
            if name is not None:
                yield int(entry), name


def _mark_of(entry: str) -> str | None:
    try:
        environ = _read(f"{entry}/environ")
        start = environ.find(MARK)
        if start < 0 or (start > 0 and environ[start - 1] != 0):
            return None
        if b") Z " in _read(f"{entry}/stat"):
            return None  # a zombie runs nothing
    except OSError:
        return None
    return environ[start + len(MARK) :].split(b"\0", 1)[0].decode("utf-8", "replace")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _marks_by_ps() -> Iterator[tuple[int, str]]:
    """macOS has no /proc; `ps -E` shows the environment of one's own processes."""
    flags = ["-E", "-ww", "-o", "pid=,command="] if sys.platform == "darwin" else ["-eww", "-o", "pid=,args="]
    done = subprocess.run(["ps", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    for line in done.stdout.splitlines():
        pid, _, rest = line.strip().partition(b" ")
        _, found, after = rest.partition(MARK)
        if found and pid.isdigit():
            yield int(pid), after.split(b" ", 1)[0].decode("utf-8", "replace")
