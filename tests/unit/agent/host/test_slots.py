"""Slots are lock files."""

import stat
from pathlib import Path

from anygpu.agent.host.slots import cpu_slots, free_labels, gpu_slots, hold_slots


def test_slots_are_held_all_or_none_and_freed_on_close(tmp_path: Path) -> None:
    slots = cpu_slots(str(tmp_path), 2)
    held = hold_slots(slots, 2)
    assert held is not None
    assert (held.labels, free_labels(slots), hold_slots(slots, 1)) == (
        ["0", "1"],
        [],
        None,
    )
    held.close()
    assert hold_slots(slots, 3) is None
    assert free_labels(slots) == ["0", "1"]


def test_every_user_of_the_machine_can_lock_a_gpu(tmp_path: Path) -> None:
    slots = gpu_slots(["GPU-a/../b"], str(tmp_path / "gpus"))
    held = hold_slots(slots, 1)
    assert held is not None
    held.close()
    assert stat.S_IMODE((tmp_path / "gpus").stat().st_mode) == 0o777
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "gpus").iterdir()] == [0o666]


def test_a_lock_file_replaced_by_a_link_counts_as_taken(tmp_path: Path) -> None:
    slots = gpu_slots(["GPU-1"], str(tmp_path))
    Path(slots[0].path).symlink_to(tmp_path / "elsewhere")
    assert free_labels(slots) == []
    assert not (tmp_path / "elsewhere").exists()
