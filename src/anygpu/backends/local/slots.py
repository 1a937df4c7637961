"""Slots are lock files. Whoever holds the lock has the slot; the kernel gives it back when the holder dies.

GPU slots are named by UUID in a directory shared by everyone on the host, so two servers on one box do not collide.
The agent and the user's process inherit the open lock, so a slot stays taken as long as anything uses it.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Slot:
    """One lock file. `label` is what the job is told (a GPU's UUID, a CPU's number)."""

    label: str
    path: Path


@dataclass(slots=True)
class Held:
    """Slots locked by us, until they are passed on to an agent and closed here."""

    slots: tuple[Slot, ...]
    fds: tuple[int, ...]

    @property
    def labels(self) -> list[str]:
        return [slot.label for slot in self.slots]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()


def cpu_slots(directory: Path, count: int) -> tuple[Slot, ...]:
    return tuple(Slot(str(number), directory / f"cpu-{number}.lock") for number in range(count))


def gpu_slots(directory: Path, uuids: Sequence[str]) -> tuple[Slot, ...]:
    return tuple(Slot(uuid, directory / f"gpu-{_plain(uuid)}.lock") for uuid in uuids)


def count_free(slots: Sequence[Slot]) -> int:
    return sum(_is_free(slot) for slot in slots)


def hold(slots: Sequence[Slot], count: int) -> Held | None:
    """Lock `count` of the slots, or none of them."""
    held: list[tuple[Slot, int]] = []
    for slot in slots:
        if len(held) == count:
            break
        fd = _try_lock(slot)
        if fd is not None:
            held.append((slot, fd))
    taken = Held(tuple(slot for slot, _ in held), tuple(fd for _, fd in held))
    if len(held) == count:
        return taken
    taken.close()
    return None


def _is_free(slot: Slot) -> bool:
    fd = _try_lock(slot)
    if fd is not None:
        os.close(fd)
    return fd is not None


def _try_lock(slot: Slot) -> int | None:
    with _shared_umask():
        fd = os.open(slot.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


@contextlib.contextmanager
def _shared_umask() -> Iterator[None]:
    """Another person's server must be able to open the same lock file."""
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def _plain(uuid: str) -> str:
    return "".join(c for c in uuid if c.isalnum() or c == "-")
