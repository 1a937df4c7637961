"""Find, signal and kill the processes of an attempt, including daemonised children.

Every process of an attempt has `ANYGPU_NAME=<name>` in the environment it was started with. A process can
leave its process group and its parent, but the kernel still shows its initial environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


PLACEHOLDER_NAME = "?" * 64  # reserves space for a name, see `prewarmed`

NAME_VARIABLE = b"ANYGPU_NAME="
CLEAN_ROUNDS = 2
NO_ATTEMPT = ("", PLACEHOLDER_NAME)  # a prewarmed agent has no attempt yet


def processes_by_attempt() -> dict[str, list[int]]:
    """Return the ids of the running processes by attempt name."""
    processes: dict[str, list[int]] = {}
    for pid, name in _names_from_proc() if os.path.isdir("/proc/self") else _names_from_ps():
        if pid != os.getpid() and name not in NO_ATTEMPT:
            processes.setdefault(name, []).append(pid)
    return processes


def kill_attempt(name: str, within_s: float = 10.0) -> bool:
    """Kill every process of an attempt. Return False if some still run after `within_s` seconds.

    While a process starts another program (exec), its environment is empty for a moment, so one scan may miss
    it. The attempt counts as killed only after two scans in a row have found no process.
    """
    end, clean = time.monotonic() + within_s, 0
    while time.monotonic() < end:
        left = processes_by_attempt().get(name, [])
        clean = 0 if left else clean + 1
        if clean >= CLEAN_ROUNDS:
            return True
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return not processes_by_attempt().get(name)


def _names_from_proc() -> Iterator[tuple[int, str]]:
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            name = _attempt_name(f"/proc/{entry}")
            if name is not None:
                yield int(entry), name


def _attempt_name(entry: str) -> str | None:
    try:
        _, variable, rest = (b"\0" + _read(f"{entry}/environ")).partition(b"\0" + NAME_VARIABLE)
        if not variable:
            return None
        if b") Z " in _read(f"{entry}/stat"):
            return None  # the process is a zombie
    except OSError:
        return None
    return rest.partition(b"\0")[0].decode("utf-8", "replace")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _names_from_ps() -> Iterator[tuple[int, str]]:
    """Yield (process id, attempt name) from the output of `ps`. For macOS, which has no /proc."""
    flags = ["-E", "-ww", "-o", "pid=,command="] if sys.platform == "darwin" else ["-eww", "-o", "pid=,args="]
    done = subprocess.run(["ps", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    for line in done.stdout.splitlines():
        pid, _, rest = line.strip().partition(b" ")
        _, variable, after = rest.partition(NAME_VARIABLE)
        if variable and pid.isdigit():
            yield int(pid), after.split(b" ", 1)[0].decode("utf-8", "replace")


PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Make the agent, instead of init, the parent of the job's daemonised children.

    Called before the job starts, so that a child cannot leave before.
    """
    if sys.platform != "linux":
        return
    try:
        import _ctypes  # the module ctypes takes many times as long to import

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        return  # daemonised children are still found by their environment


def signal_group(group: int | None, number: int) -> None:
    if not group:
        return  # group 0 would be our own
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def signal_process(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def is_group_alive(group: int | None) -> bool:
    """Return whether the process group has a running process. Zombies do not count."""
    if not group:
        return False
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return any(process.group == group for process in _list_processes())


def kill_tree(group: int | None, name: str) -> None:
    """Kill a process group and every other process of the attempt.

    Repeats the search for about a second, because processes may fork meanwhile.
    """
    for _ in range(50):
        signal_group(group, signal.SIGKILL)
        left = find_descendants(name, set())
        for pid in left:
            signal_process(pid, signal.SIGKILL)
        reap_children({group} if group else set())
        if not left and not is_group_alive(group):
            return
        time.sleep(0.02)


def find_descendants(name: str, excluded: set[int]) -> list[int]:
    """Return the agent's descendants and all processes of the attempt, except `excluded` and the agent's helpers."""
    return [process.pid for process in _list_attempt(name) if process.pid not in excluded]


def find_signal_targets(name: str, group: int) -> tuple[set[int], set[int]]:
    """Return the processes of the attempt in `group`, and those outside it whose parent has ended.

    To the rest, a process of the attempt passes signals on: torchrun and `timeout` start others in groups of their own.
    """
    processes = _list_attempt(name)
    parents = {process.pid for process in processes}
    members = {process.pid for process in processes if process.group == group}
    orphans = {process.pid for process in processes if process.parent not in parents}
    return members, orphans - members


def _list_attempt(name: str) -> list[_ProcessInfo]:
    processes = _list_processes()
    descendants = _descendant_pids(processes, os.getpid())
    return [
        process
        for process in processes
        if process.pid != os.getpid()
        and (process.pid in descendants or _attempt_name(f"/proc/{process.pid}") == name)
        and process.pid not in helper_pids
    ]


def descendants() -> set[int]:
    """Return the processes that the agent or one of its descendants has started, except its helpers."""
    return _descendant_pids(_list_processes(), os.getpid())


# Short-lived programs of the agent itself, such as nvidia-smi. They do not belong to the job.
helper_pids: set[int] = set()


def reap_children(own: set[int]) -> None:
    """Wait for (reap) daemonised children that have ended, so that they do not stay zombies.

    Children in `own` are left to the code that started them.
    """
    if sys.platform != "linux":
        return
    try:
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None or ended.si_pid in own or ended.si_pid in helper_pids:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)
    except ChildProcessError:
        return


class _ProcessInfo:
    __slots__ = ("group", "parent", "pid", "state")

    def __init__(self, pid: int, state: str, parent: int, group: int) -> None:
        self.pid, self.state, self.parent, self.group = pid, state, parent, group


def _list_processes() -> list[_ProcessInfo]:
    """Return every running process except zombies."""
    processes = _from_proc() if os.path.isdir("/proc/self") else _from_ps()
    return [process for process in processes if process.state not in "ZX"]


def _from_proc() -> Iterable[_ProcessInfo]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has ended
        yield _ProcessInfo(int(entry), fields[0].decode(), int(fields[1]), int(fields[2]))


def _from_ps() -> Iterable[_ProcessInfo]:
    listed = subprocess.run(
        ["ps", "-axo", "pid=,stat=,ppid=,pgid="],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        pid, state, parent, group = line.split()[:4]
        yield _ProcessInfo(int(pid), state[0], int(parent), int(group))


def _descendant_pids(processes: list[_ProcessInfo], root: int) -> set[int]:
    descendants = {root}
    grew = True
    while grew:
        more = {
            p.pid
            for p in processes
            if p.parent in descendants and p.pid not in descendants and p.pid not in helper_pids
        }
        descendants |= more
        grew = bool(more)
    return descendants - {root}
