"""The files of a working directory: what is copied, and what is not."""

import os
import socket
from pathlib import Path

import pytest
from tests.unit.spec.conftest import Make

from anygpu.errors import NotFound, TooLarge, UnsafePath
from anygpu.spec.workdir import ArchiveEntry, list_files


def entries(root: Path, *ignore: str, max_bytes: int = 10_000, max_files: int = 100) -> list[ArchiveEntry]:
    return list_files(root, ignore, max_bytes=max_bytes, max_files=max_files)


def names(root: Path, *ignore: str) -> list[str]:
    return [entry.name for entry in entries(root, *ignore)]


def test_the_executable_bit_is_kept(make: Make) -> None:
    root = make({"run.sh": "x", "a.py": "y"})
    (root / "run.sh").chmod(0o750)
    (root / "a.py").chmod(0o600)
    assert {entry.name: entry.executable for entry in entries(root)} == {"a.py": False, "run.sh": True}


def test_a_link_inside_stays_a_link(make: Make) -> None:
    root = make({"data/a": "x", "deep/er/b": "y"})
    (root / "deep" / "link").symlink_to("../data/a")
    (root / "absolute").symlink_to(root / "data")
    links = {entry.name: entry.link for entry in entries(root) if entry.link}
    assert links == {"deep/link": "../data/a", "absolute": "data"}


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "out/../../../secret"])
def test_a_link_that_leads_outside_is_refused_by_name(make: Make, target: str) -> None:
    root = make({"d/a": ""})
    (root / "d" / "leak").symlink_to(target)
    with pytest.raises(UnsafePath, match=r"d/leak points outside"):
        entries(root)
    assert names(root, "leak") == ["d/a"]


def test_a_link_through_another_link_is_followed_to_its_end(make: Make, tmp_path: Path) -> None:
    root = make({"a": ""})
    (tmp_path / "elsewhere").mkdir()
    (root / "b").symlink_to("c")
    (root / "c").symlink_to("../elsewhere")
    with pytest.raises(UnsafePath):
        entries(root)


def test_sockets_and_pipes_are_left_out(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make({"a.py": ""})
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the path of a socket has a short limit
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert names(root) == ["a.py"]


def test_a_directory_too_large_names_the_biggest_entries_and_the_remedy(make: Make) -> None:
    root = make(
        {
            "a.py": "x",
            "src/data/big.bin": "x" * 900,
            "src/b.py": "x",
            "logs/1": "x" * 300,
            "logs/2": "x" * 300,
        }
    )
    with pytest.raises(TooLarge) as caught:
        entries(root, max_bytes=1000)
    assert caught.value.details["biggest"][:2] == [
        {"name": "src/data/big.bin", "size": 900},
        {"name": "logs/", "size": 600},
    ]
    assert "'/src/data/big.bin'" in caught.value.hint
    assert ".anygpuignore" in caught.value.hint


def test_too_many_files_are_refused(make: Make) -> None:
    root = make({f"f{number}": "" for number in range(5)})
    with pytest.raises(TooLarge, match="5 files"):
        entries(root, max_files=4)


def test_a_missing_directory_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a directory"):
        entries(tmp_path / "nowhere")


def test_names_in_any_script_survive(make: Make) -> None:
    files = {"données/été.py": "", "日本語.txt": "x" * 10, "a" * 150 + "/" + "b" * 150: "y"}
    assert names(make(files)) == sorted(files)
