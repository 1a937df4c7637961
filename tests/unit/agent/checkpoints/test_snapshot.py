"""Files found by pattern, and snapshots of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anygpu.agent.checkpoints import snapshot
from anygpu.agent.checkpoints.snapshot import find_files, matching_folder


def made(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (["*.pt"], {"a.pt"}),
        (["**/*.pt"], {"a.pt", "runs/b.pt", "runs/x/c.pt"}),
        (["runs"], {"runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["runs/**"], {"runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["runs/?/*"], {"runs/x/c.pt", "runs/x/log"}),
        (["**"], {"a.pt", "runs/b.pt", "runs/x/c.pt", "runs/x/log"}),
        (["../*", "/etc/*", "nothing"], set()),
        ([".hidden"], {".hidden"}),
        ([".*"], {".hidden"}),
        ([".anygpu/checkpoints"], {".anygpu/checkpoints/s.pt"}),
    ],
)
def test_patterns_find_only_files_below_the_directory(
    tmp_path: Path, patterns: list[str], found: set[str]
) -> None:
    made(tmp_path, "a.pt", "runs/b.pt", "runs/x/c.pt", "runs/x/log", ".hidden", ".anygpu/checkpoints/s.pt")
    (tmp_path / "leak.pt").symlink_to("/etc/hostname")
    (tmp_path / "runs" / "etc").symlink_to("/etc")
    assert set(find_files(str(tmp_path), patterns)) == found


def test_a_pattern_can_name_the_directory_of_a_checkpoint() -> None:
    assert matching_folder("out/checkpoint-400/model.bin", ["out/checkpoint-*"]) == "out/checkpoint-400"
    assert matching_folder("out/last.pt", ["out/*.pt"]) is None


def test_a_snapshot_keeps_overwritten_files_and_lists_the_newest_first(tmp_path: Path) -> None:
    made(tmp_path / "work", "old.pt", "new.pt")
    os.utime(tmp_path / "work" / "old.pt", (1, 1))
    taken = snapshot.take_snapshot(str(tmp_path / "work"), ["old.pt", "new.pt"], str(tmp_path / "s"), set())
    (tmp_path / "work" / "new.pt").write_text("torn")
    assert [(name, Path(path).read_text()) for name, path in snapshot.snapshot_files(taken)] == [
        ("new.pt", "new.pt"),
        ("old.pt", "old.pt"),
    ]
