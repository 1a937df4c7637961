"""GPU and CPU slots. A slot is a lock file: the process that holds the lock owns the slot.

The kernel releases the lock when the process ends. GPU slots are named by UUID in a directory shared by all
users of the machine, so that two servers do not use the same GPU. The agent and the job inherit the lock, so
a slot is taken as long as one of their processes runs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GPU_LOCKS = "/tmp/anygpu-gpus"  # shared by all users of the machine on purpose


class Slot:
    """A GPU or CPU that one attempt can use at a time. `label` is the GPU's UUID or the CPU's number."""

    __slots__ = ("label", "path")

    def __init__(self, label: str, path: str) -> None:
        self.label, self.path = label, path


class HeldSlots:
    """Slots that this process has locked for an agent. Once the agent has inherited the locks, call `close`."""

    def __init__(self, labels: Sequence[str], fds: Sequence[int]) -> None:
        self.labels, self.fds = list(labels), tuple(fds)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()


def cpu_slots(directory: str, count: int) -> list[Slot]:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return [Slot(str(number), os.path.join(directory, f"cpu-{number}.lock")) for number in range(count)]


def user_cpu_slots(count: int) -> list[Slot]:
    """Return the CPU slots of this user on this machine. All programs of anygpu except the local backend share them."""
    return cpu_slots(os.path.join(os.path.expanduser("~"), ".anygpu", "slots"), count)


def gpu_slots(uuids: Sequence[str], directory: str = "") -> list[Slot]:
    directory = directory or os.environ.get("ANYGPU_GPU_LOCKS") or GPU_LOCKS
    with _shared_umask():
        os.makedirs(directory, mode=0o777, exist_ok=True)
    return [Slot(uuid, os.path.join(directory, f"gpu-{_safe_name(uuid)}.lock")) for uuid in uuids]


def free_labels(slots: Sequence[Slot]) -> list[str]:
    """Return the labels of the slots (GPUs or CPUs) that no process has locked."""
    return [slot.label for slot in slots if _is_free(slot)]


def hold_slots(slots: Sequence[Slot], count: int) -> HeldSlots | None:
    """Lock `count` free slots (GPUs or CPUs). Return None, and lock nothing, if fewer are free."""
    taken: list[tuple[str, int]] = []
    for slot in slots:
        fd = try_lock(slot.path) if len(taken) < count else None
        if fd is not None:
            taken.append((slot.label, fd))
    held = HeldSlots([label for label, _ in taken], [fd for _, fd in taken])
    if len(taken) == count:
        return held
    held.close()
    return None


def try_lock(path: str) -> int | None:
    """Lock the file at `path`. Return the descriptor that holds the lock; None if another process has it."""
    try:
        with _shared_umask():
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.ELOOP):
            return None  # another user does not let us lock it, so it counts as taken
        raise
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _is_free(slot: Slot) -> bool:
    fd = try_lock(slot.path)
    if fd is not None:
        os.close(fd)
    return fd is not None


@contextlib.contextmanager
def _shared_umask() -> Iterator[None]:
    """Set the umask so that all users can open new files, because servers of other users need the same lock files."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def _safe_name(uuid: str) -> str:
    return "".join(c for c in uuid if c.isalnum() or c == "-")
