"""Every process of an attempt: its group, its children, and those that daemonised themselves out of both."""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Daemonised children come back to us instead of to init. Loaded late: ctypes costs 10 ms."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return  # then they are found by their environment alone


def send(group: int | None, number: int) -> None:
    if not group:
        return  # to the system, group 0 would mean our own
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def send_to(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def group_lives(group: int | None) -> bool:
    """Zombies are in a group too, and need no ending."""
    if not group:
        return False
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(process.group == group for process in _snapshot())


def end(group: int | None, name: str) -> None:
    """SIGKILL until nothing is left; a process that forks faster than we look does not get away."""
    for _ in range(50):
        send(group, signal.SIGKILL)
        found = find(name, set())
        for pid in found:
            send_to(pid, signal.SIGKILL)
        reap({group} if group else set())
        if not found and not group_lives(group):
            return
        time.sleep(0.02)


def find(name: str, known: set[int]) -> list[int]:
    """Descendants of ours, and whatever carries this attempt's name in its environment, except `known`."""
    processes = _snapshot()
    ours = _descendants(processes, os.getpid())
    return [
        process.pid
        for process in processes
        if process.pid not in known
        and process.pid != os.getpid()
        and (process.pid in ours or _carries(process.pid, name))
        and process.pid not in helpers
    ]


# Short-lived programs of the agent's own (nvidia-smi): ours, but no part of the job.
helpers: set[int] = set()


def reap(known: set[int]) -> None:
    """Collect adopted children that ended; the known ones are waited for by who started them."""
    if sys.platform != "linux":
        return
    try:
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in known or ended.si_pid in helpers:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return


class _Process:
    __slots__ = ("group", "parent", "pid", "state")

    def __init__(self, pid: int, state: str, parent: int, group: int) -> None:
        self.pid, self.state, self.parent, self.group = pid, state, parent, group


def _snapshot() -> list[_Process]:
    """Every process that runs; what has ended and waits to be collected is left out."""
    found = _from_proc() if os.path.isdir("/proc/self") else _from_ps()
    return [process for process in found if process.state not in "ZX"]


def _from_proc() -> Iterable[_Process]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended while we looked
        yield _Process(int(entry), fields[0].decode(), int(fields[1]), int(fields[2]))


def _from_ps() -> Iterable[_Process]:
    import subprocess

    listed = subprocess.run(
        ["ps", "-axo", "pid=,stat=,ppid=,pgid="],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        pid, state, parent, group = line.split()[:4]
        yield _Process(int(pid), state[0], int(parent), int(group))


def _descendants(processes: list[_Process], root: int) -> set[int]:
    found = {root}
    grew = True
    while grew:
        more = {p.pid for p in processes if p.parent in found and p.pid not in found and p.pid not in helpers}
        found |= more
        grew = bool(more)
    return found - {root}


def _carries(pid: int, name: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"ANYGPU_NAME={name}".encode() in file.read().split(b"\0")
    except OSError:
        return False
