"""Atomic writes and hashes of files."""

import hashlib
from pathlib import Path

import pytest

from anygpu.agent.files import SMALL_BYTES, file_sha256, write_atomic, write_json


def test_a_file_is_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"old")
    write_atomic(str(path), b"new", mode=0o755)
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o755
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "ticket.json"
    write_json(str(path), {"token": "t"})
    with pytest.raises(TypeError):
        write_json(str(path), {"token": object()})
    assert path.read_text() == '{"token": "t"}'


def test_json_files_are_private(tmp_path: Path) -> None:
    write_json(str(tmp_path / "work.json"), {})
    assert (tmp_path / "work.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 10, SMALL_BYTES + 1])
def test_small_and_large_files_have_the_same_hash_as_hashlib(tmp_path: Path, size: int) -> None:
    data = b"x" * size
    (tmp_path / "file").write_bytes(data)
    assert file_sha256(str(tmp_path / "file")) == hashlib.sha256(data).hexdigest()
