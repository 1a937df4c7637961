"""Checkpoints are copied and replaced without a moment in which there is none."""

from pathlib import Path

import pytest

from anygpu.trainers.checkpoint_files import copy_checkpoint, replace_checkpoint


def write_directory(path: Path, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).write_text(name)
    return path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_file_is_copied_over_another(tmp_path: Path) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    copy_checkpoint(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"


def test_a_copied_directory_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    source = write_directory(tmp_path / "new", "weights")
    copy_checkpoint(source, write_directory(tmp_path / "old", "weights", "stale"))
    assert names(tmp_path / "old") == ["weights"]
    assert names(source) == ["weights"]


def test_the_draft_becomes_the_last_checkpoint(tmp_path: Path) -> None:
    last, previous = tmp_path / "last", tmp_path / "previous"
    for number in ("1", "2"):
        replace_checkpoint(write_directory(tmp_path / "draft", number), last, previous)
        assert names(last) == [number]
        assert not previous.exists()


def test_the_previous_checkpoint_is_complete_if_the_process_dies_between_the_renames(tmp_path: Path) -> None:
    last, previous = write_directory(tmp_path / "last", "1"), tmp_path / "previous"
    draft = tmp_path / "draft"  # it cannot be renamed, because it does not exist
    with pytest.raises(FileNotFoundError):
        replace_checkpoint(draft, last, previous)
    assert names(previous) == ["1"]
    replace_checkpoint(write_directory(draft, "2"), last, previous)
    assert (names(last), previous.exists()) == (["2"], False)
