"""How much memory the job used, how much it may use, and whether the kernel killed it for lack of memory."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
import time

from anygpu.agent.host import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

POLL_S = 2.0
POLL_TIME_DIVISOR = 200  # sampling uses at most 1/200 of the time
UNLIMITED_BYTES = 2**60  # cgroup v1 writes a huge number for "no limit"
CGROUPS = "/sys/fs/cgroup"
KERNEL_LOG = "/dev/kmsg"
KERNEL_LOG_RECORD_BYTES = 8192
KERNEL_LOG_RECORDS = 20_000
_KILLED = re.compile(rb"[Kk]illed process (\d+)")


class JobMemory:
    """Watches the memory of the job's processes. Created before the job starts.

    The peak is the largest sum over all processes in a sample, or the largest process that has ended, whichever
    is higher: the kernel knows the peak of an ended process exactly.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._groups = list(_memory_groups(root))
        self._kill_count = self._count_kills()
        self._children_before = _largest_child_bytes()
        self._sampled_peak = 0
        self._pids: set[int] = set()

    def poll(self, now: float) -> float:
        """Take a sample, and return the time of the next one (monotonic clock)."""
        start = time.monotonic()
        pids = processes.descendants()
        self._pids |= pids
        self._sampled_peak = max(self._sampled_peak, sum(_resident_bytes(self._root, pid) for pid in pids))
        return now + max(POLL_S, POLL_TIME_DIVISOR * (time.monotonic() - start))

    def report(self, pid: int) -> dict[str, Any]:
        """Return what is known after process `pid` has ended: peak, limit, and whether the kernel killed it.

        A limit below the memory of the machine is the job's own. Values that are not known are null.
        """
        children = _largest_child_bytes()
        largest = children if children > self._children_before else 0
        peak = max(self._sampled_peak, largest)
        machine = self._machine_bytes()
        return {
            "peak": peak or None,
            "limit": self._limit_bytes(machine),
            "machine": machine,
            "oom_killed": self._was_killed({pid, *self._pids}),
        }

    def _machine_bytes(self) -> int | None:
        from anygpu.agent.host.telemetry import memory_usage

        return memory_usage(self._root)["total"] or None

    def _limit_bytes(self, machine: int | None) -> int | None:
        limits = [_read_number(self._root, f"{group}/{name}") for group, name in self._limit_files()]
        _, ulimit = resource.getrlimit(resource.RLIMIT_AS)
        known = [limit for limit in (*limits, ulimit, machine) if limit and 0 < limit < UNLIMITED_BYTES]
        return min(known, default=None)

    def _limit_files(self) -> Iterator[tuple[str, str]]:
        for group in self._groups:
            yield group, "memory.max"
            yield group, "memory.limit_in_bytes"

    def _was_killed(self, pids: set[int]) -> bool | None:
        """Return whether the kernel killed the job for lack of memory; None if nothing shows it."""
        before, after = self._kill_count, self._count_kills()
        counted = None if before is None or after is None else after > before
        if counted is not None:
            return counted
        return True if pids & _killed_pids(self._root) else None

    def _count_kills(self) -> int | None:
        """Return how many processes of this cgroup the kernel has killed for lack of memory."""
        for group in self._groups:
            for name in ("memory.events", "memory.oom_control"):
                fields = dict(
                    line.split(None, 1) for line in _read(self._root, f"{group}/{name}").splitlines()
                )
                if fields.get("oom_kill", "").strip().isdigit():
                    return int(fields["oom_kill"])
        return None


def _memory_groups(root: str) -> Iterator[str]:
    """Yield the directories of this process's memory cgroup and of its parents, the innermost first."""
    for line in _read(root, "/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = f"{CGROUPS}/memory" if controllers else CGROUPS
        while path.strip("/"):
            yield f"{top}/{path.strip('/')}"
            path = os.path.dirname(path.rstrip("/"))
        yield top  # in a container, this is the container's own group


def _killed_pids(root: str) -> set[int]:
    """Return the processes that the kernel's log says were killed; empty if the log cannot be read."""
    try:
        log = os.open(root + KERNEL_LOG.lstrip("/"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return set()
    pids: set[int] = set()
    try:
        # Reading fails at the end of the log, and at a record that was overwritten meanwhile.
        with contextlib.suppress(OSError):
            for _ in range(KERNEL_LOG_RECORDS):
                record = os.read(log, KERNEL_LOG_RECORD_BYTES)
                if not record:
                    break
                pids.update(int(match) for match in _KILLED.findall(record))
    finally:
        os.close(log)
    return pids


def _resident_bytes(root: str, pid: int) -> int:
    fields = _read(root, f"/proc/{pid}/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _largest_child_bytes() -> int:
    """Return the peak memory of the largest child that has ended."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def _read_number(root: str, path: str) -> int | None:
    text = _read(root, path).strip()
    return int(text) if text.isdigit() else None


def _read(root: str, path: str) -> str:
    try:
        with open(root + path.lstrip("/"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
