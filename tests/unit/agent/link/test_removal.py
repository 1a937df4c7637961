"""Removing what a hostile job has written."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anygpu.agent.link.removal import remove_tree

NOBODY = 65534
PLENTY_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory of a user who is not root: root needs no permissions."""
    root = os.geteuid() == 0
    path = Path(tempfile.mkdtemp())
    if root:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield path
    finally:
        if root:
            os.seteuid(0)
        shutil.rmtree(path, ignore_errors=True)


def remove(folder: Path, name: str, limit_s: float = PLENTY_S) -> bool:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        return remove_tree(descriptor, name, limit_s)
    finally:
        os.close(descriptor)


def test_a_tree_is_removed_with_its_hidden_files_and_pipes(folder: Path) -> None:
    (folder / "box/a/b").mkdir(parents=True)
    (folder / "box/a/.hidden").write_text("x")
    os.mkfifo(folder / "box/a/b/pipe")
    (folder / "other").write_text("kept")
    assert remove(folder, "box")
    assert [path.name for path in folder.iterdir()] == ["other"]


def test_what_is_not_there_counts_as_removed(folder: Path) -> None:
    assert remove(folder, "box")


def test_directories_without_permissions_are_removed(folder: Path) -> None:
    for name in ("closed/inner", "read-only/inner", "read-only/empty"):
        (folder / "box" / name).mkdir(parents=True)
        (folder / "box" / name / "file").write_text("x")
    for name, mode in (("closed/inner", 0), ("closed", 0), ("read-only/inner", 0o500), ("read-only", 0o500)):
        (folder / "box" / name).chmod(mode)
    (folder / "box").chmod(0)
    assert remove(folder, "box")
    assert [*folder.iterdir()] == []


def test_links_are_removed_and_not_followed(folder: Path) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("kept")
    elsewhere.chmod(0o750)
    (folder / "box/inner").mkdir(parents=True)
    for link in ("box/link", "box/inner/link"):
        (folder / link).symlink_to(elsewhere)
    (folder / "alias").symlink_to(elsewhere)
    assert remove(folder, "box")
    assert remove(folder, "alias")
    assert [path.name for path in folder.iterdir()] == ["elsewhere"]
    assert (elsewhere / "kept").read_text() == "kept"
    assert elsewhere.stat().st_mode & 0o777 == 0o750


def test_directories_may_be_nested_deeper_than_functions_may_call_themselves(folder: Path) -> None:
    (folder / "box").mkdir()
    directory = os.open(folder / "box", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=directory)
        inner = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = inner
    os.close(directory)
    assert remove(folder, "box")
    assert [*folder.iterdir()] == []


def test_a_large_tree_is_removed_in_steps(folder: Path) -> None:
    for number in range(20):
        (folder / f"box/{number}").mkdir(parents=True)
        (folder / f"box/{number}/file").write_text("x")
    steps = 0
    while not remove(folder, "box", 0):
        steps += 1
        assert steps < 1000, "each step removes something"
    assert steps > 5
    assert [*folder.iterdir()] == []
