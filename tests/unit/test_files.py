"""Atomic file replacement."""

from pathlib import Path

import pytest

from anygpu.files import write_atomic


def test_the_file_has_the_new_content_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o077 == 0


def test_an_existing_file_is_kept_unless_overwriting_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "key"
    write_atomic(path, b"first", overwrite=False)
    with pytest.raises(FileExistsError):
        write_atomic(path, b"second", overwrite=False)
    assert path.read_bytes() == b"first"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomic(path, "not bytes")  # type: ignore[arg-type]
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("state", b"old")]
