"""Slots of this machine are lock files, as on any other; see `anygpu.agent.box_slots`."""

from collections.abc import Sequence
from pathlib import Path

from anygpu.agent import box_slots
from anygpu.agent.box_slots import Held, Slot, hold

__all__ = ["Held", "Slot", "count_free", "cpu_slots", "gpu_slots", "hold"]


def cpu_slots(directory: Path, count: int) -> Sequence[Slot]:
    return box_slots.cpu_slots(str(directory), count)


def gpu_slots(directory: Path, uuids: Sequence[str]) -> Sequence[Slot]:
    return box_slots.gpu_slots(uuids, str(directory))


def count_free(slots: Sequence[Slot]) -> int:
    return len(box_slots.free(slots))
