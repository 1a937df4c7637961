"""Start, find and kill the processes of machines.

A process belongs to a machine if an environment variable contains the machine's directory, or if the process
has no such variable and its working directory is inside that directory. Process groups, sessions and parents
are not used, because a process can leave them, while /proc always shows its initial environment.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

MACHINE_VARIABLE = "ANYGPU_SIM_MACHINE"  # value: the machine's directory, which is unique
PROC = Path("/proc")
Stream = int | IO[bytes] | None


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.DEVNULL,
    stderr: Stream = subprocess.DEVNULL,
) -> "subprocess.Popen[bytes]":
    """Start a process in a new session, with unbuffered pipes."""
    return subprocess.Popen(
        argv,
        env=dict(env),
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        bufsize=0,
        start_new_session=True,
    )


async def exit_code(process: "subprocess.Popen[bytes]") -> int:
    """Wait until a process ends and return its exit code.

    A thread is used only if Python has no `pidfd_open`.
    """
    if process.poll() is not None:
        return process.returncode
    if not hasattr(os, "pidfd_open"):
        return await asyncio.to_thread(process.wait)
    handle = os.pidfd_open(process.pid)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return process.wait()


def find_processes(machines: Iterable[Path]) -> dict[Path, list[int]]:
    """Return the ids of the running processes of each machine, by the machine's directory."""
    by_path = {str(machine): machine for machine in machines}
    processes: dict[Path, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            machine = _machine_of(entry, by_path)
            if machine is not None:
                processes.setdefault(machine, []).append(int(entry.name))
    return processes


def _machine_of(entry: Path, machines: Mapping[str, Path]) -> Path | None:
    try:
        if b") Z " in (entry / "stat").read_bytes():
            return None  # a zombie is not running
        for field in (entry / "environ").read_bytes().split(b"\0"):
            name, _, value = field.partition(b"=")
            if name == MACHINE_VARIABLE.encode():
                return machines.get(os.fsdecode(value))
        works_in = (entry / "cwd").readlink()
    except OSError:
        return None
    return next(
        (machines[str(place)] for place in (works_in, *works_in.parents) if str(place) in machines), None
    )


class ProcessReaper:
    """Kills all processes of machines that are ended.

    One scan of /proc finds the processes of all these machines.
    """

    def __init__(self) -> None:
        self._machines: set[Path] = set()
        self._round: asyncio.Task[None] | None = None

    async def kill(self, machine: Path) -> None:
        """Kill the machine's processes, and return when none is running."""
        self._machines.add(machine)
        while machine in self._machines:
            if self._round is None or self._round.done():
                self._round = asyncio.create_task(self._kill_round(), name="sim-reaper")
            await asyncio.shield(self._round)

    async def _kill_round(self) -> None:
        """Scan /proc once and kill the processes of all machines that are being ended.

        A process may fork during a scan, so a machine is scanned again until none of its processes is found.
        """
        machines = set(self._machines)
        remaining = await asyncio.to_thread(_kill_found, machines)
        self._machines -= machines - remaining
        await asyncio.sleep(0.01 if remaining else 0)


def _kill_found(machines: Iterable[Path]) -> set[Path]:
    processes = find_processes(machines)
    for pid in (pid for pids in processes.values() for pid in pids):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return set(processes)
