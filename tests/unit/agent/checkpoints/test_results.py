"""Which files of a copied working directory are results."""

import os
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.checkpoints.results import IgnorePatterns, ResultFiles, ResultFinder, ResultRule

OLD_S = 315_619_200


def a_copy(root: Path, *names: str, old: bool = True) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("packed")
        if old:
            os.utime(root / name, (OLD_S, OLD_S))


def finder(root: Path, **rule: Any) -> ResultFinder:
    return ResultFinder(str(root), ResultRule({"max_bytes": 1 << 20, "max_files": 100, **rule}))


def find(root: Path, before: ResultFinder) -> list[str]:
    return before.find().kept


def test_new_and_changed_files_are_results(tmp_path: Path) -> None:
    a_copy(tmp_path, "train.py", "log.csv", "src/model.py")
    before = finder(tmp_path)
    a_copy(tmp_path, "model.pt", "runs/a/b.txt", "log.csv", old=False)
    assert find(tmp_path, before) == ["log.csv", "model.pt", "runs/a/b.txt"]


def test_a_change_of_equal_size_and_time_is_found_by_its_content(tmp_path: Path) -> None:
    a_copy(tmp_path, "made_by_setup", old=False)
    status = (tmp_path / "made_by_setup").stat()
    before = finder(tmp_path)
    (tmp_path / "made_by_setup").write_text("packet")
    os.utime(tmp_path / "made_by_setup", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find(tmp_path, before) == ["made_by_setup"]


def test_ignored_directories_environments_and_links_that_leave_are_no_results(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    before = finder(root, ignore=[".git", "__pycache__", "*.pyc", "data/"])
    (tmp_path / "outside").write_text("x")
    names = [".git/HEAD", "a/__pycache__/b.pyc", "data/raw.bin", "env/pyvenv.cfg", "env/lib/a.py", "kept.txt"]
    a_copy(root, *names, ".anygpu/checkpoints/a.pt", old=False)
    (root / "leaves").symlink_to(tmp_path / "outside")
    (root / "stays").symlink_to("kept.txt")
    os.mkfifo(root / "pipe")
    assert find(root, before) == ["kept.txt", "stays"]


def test_what_exceeds_a_limit_is_named_and_the_newest_files_are_kept(tmp_path: Path) -> None:
    before = finder(tmp_path, max_bytes=100, max_files=2)
    for age, (name, size) in enumerate([("a", 10), ("b", 200), ("c", 20), ("d", 30)]):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (OLD_S - age, OLD_S - age))
    found: ResultFiles = before.find()
    assert found.kept == ["a", "c"]
    assert found.left_out == [("b", 200), ("d", 30)]


@pytest.mark.parametrize(
    ("pattern", "name", "is_folder", "ignored"),
    [
        ("*.pyc", "a/b.pyc", False, True),
        ("data/", "data", True, True),
        ("data/", "data", False, False),
        ("/data", "a/data", True, False),
        ("/data", "data", True, True),
        ("a/*.bin", "a/x.bin", False, True),
        ("a/*.bin", "a/b/x.bin", False, False),
        ("a/**", "a/b/x.bin", False, True),
        ("**/logs", "x/y/logs", True, True),
        ("x[0-9].pt", "x3.pt", False, True),
        ("x[!0-9].pt", "x3.pt", False, False),
        ("a.b", "axb", False, False),
        ("# a", "# a", False, False),
    ],
)
def test_patterns_mean_what_they_mean_to_git(pattern: str, name: str, is_folder: bool, ignored: bool) -> None:
    assert IgnorePatterns([pattern]).match(name, is_folder) is ignored


def test_a_later_pattern_can_include_again() -> None:
    patterns = IgnorePatterns(["*.csv", "!kept.csv"])
    assert patterns.match("a.csv", False)
    assert not patterns.match("kept.csv", False)
