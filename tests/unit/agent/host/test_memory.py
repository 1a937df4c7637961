"""The memory of a job: peak, limit, and kills by the kernel, from the files of a made-up machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anygpu.agent.host.memory import JobMemory

GIB = 2**30


def machine(root: Path, **files: str) -> str:
    """Write the files of a machine, by their paths with `__` for `/`. Return its root."""
    defaults = {"proc__meminfo": f"MemTotal: {64 * 2**20} kB\nMemAvailable: 1 kB\n"}
    for name, text in {**defaults, **files}.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"{root}/"


V2 = {
    "proc__self__cgroup": "0::/jobs/one\n",
    "sys__fs__cgroup__jobs__one__memory.events": "oom 0\noom_kill 1\n",
}
V1 = {
    "proc__self__cgroup": "4:memory:/jobs/one\n0::/\n",
    "sys__fs__cgroup__memory__jobs__one__memory.oom_control": "under_oom 0\noom_kill 1\n",
}


@pytest.mark.parametrize(
    ("files", "limit_gib"),
    [
        ({}, 64),
        ({**V2, "sys__fs__cgroup__jobs__one__memory.max": "max\n"}, 64),
        ({**V2, "sys__fs__cgroup__jobs__one__memory.max": f"{8 * GIB}\n"}, 8),
        ({**V2, "sys__fs__cgroup__jobs__memory.max": f"{6 * GIB}\n"}, 6),
        (
            {"proc__self__cgroup": "0::/\n", "sys__fs__cgroup__memory.max": f"{4 * GIB}\n"},
            4,
        ),  # in a container
        ({**V1, "sys__fs__cgroup__memory__jobs__one__memory.limit_in_bytes": "9223372036854771712\n"}, 64),
        ({**V1, "sys__fs__cgroup__memory__jobs__one__memory.limit_in_bytes": f"{3 * GIB}\n"}, 3),
    ],
)
def test_the_limit_is_the_lowest_of_cgroup_and_machine(
    tmp_path: Path, files: dict[str, str], limit_gib: int
) -> None:
    report = JobMemory(machine(tmp_path, **files)).report(1)
    assert (report["limit"], report["machine"]) == (limit_gib * GIB, 64 * GIB)


@pytest.mark.parametrize(
    ("files", "counter"),
    [(V2, "sys/fs/cgroup/jobs/one/memory.events"), (V1, "sys/fs/cgroup/memory/jobs/one/memory.oom_control")],
)
def test_a_kill_is_one_that_the_cgroup_counted_since_the_start(
    tmp_path: Path, files: dict[str, str], counter: str
) -> None:
    memory = JobMemory(machine(tmp_path, **files))
    assert memory.report(1)["oom_killed"] is False
    (tmp_path / counter).write_text("oom_kill 2\n")
    assert memory.report(1)["oom_killed"] is True


@pytest.mark.parametrize(
    ("log", "killed"),
    [
        ("3,1,2,-;Out of memory: Killed process 77 (python) total-vm:1kB\n", True),
        ("3,1,2,-;Memory cgroup out of memory: Killed process 78 (python)\n", None),
        ("", None),
    ],
)
def test_without_a_counter_the_kernels_log_tells(tmp_path: Path, log: str, killed: bool | None) -> None:
    assert JobMemory(machine(tmp_path, dev__kmsg=log)).report(77)["oom_killed"] is killed


def test_where_nothing_is_known_nothing_is_said(tmp_path: Path) -> None:
    assert JobMemory(f"{tmp_path}/").report(77)["oom_killed"] is None


def test_odd_files_are_ignored(tmp_path: Path) -> None:
    odd = {
        "sys__fs__cgroup__jobs__one__memory.max": "lots\n",
        "sys__fs__cgroup__jobs__one__memory.events": "x y\n",
    }
    report = JobMemory(machine(tmp_path, **{**V2, **odd})).report(os.getpid())
    assert (report["limit"], report["oom_killed"]) == (64 * GIB, None)
