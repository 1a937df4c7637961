"""Packing a working directory: what travels, what stays, and that the same files give the same bytes."""

import os
import socket
import tarfile
from pathlib import Path

import pytest
from tests.unit.spec.conftest import Make

from anygpu.errors import NotFound, TooLarge, UnsafePath
from anygpu.spec.workdir import WorkdirArchive, pack


def names(root: Path, *ignore: str) -> list[str]:
    with pack(root, ignore) as archive:
        return list(archive.files)


def members(archive: WorkdirArchive) -> list[tarfile.TarInfo]:
    with tarfile.open(archive.path) as tar:
        return tar.getmembers()


def test_the_same_files_give_the_same_bytes(make: Make, tmp_path: Path) -> None:
    root = make({"b.py": "2", "a.py": "1", "d/c.py": "3"})
    with pack(root) as first:
        os.utime(root / "a.py", (1, 1))
        (root / "a.py").rename(root / "z")
        (root / "z").rename(root / "a.py")
        with pack(root) as second:
            assert (first.sha256, first.path.read_bytes()) == (second.sha256, second.path.read_bytes())
            assert first.size == first.path.stat().st_size


def test_the_executable_bit_is_packed_and_the_owner_is_not(make: Make) -> None:
    root = make({"run.sh": "x", "a.py": "y"})
    (root / "run.sh").chmod(0o750)
    (root / "a.py").chmod(0o600)
    with pack(root) as archive:
        found = {info.name: (info.mode, info.uid, info.uname) for info in members(archive)}
    assert found == {"a.py": (0o644, 0, ""), "run.sh": (0o755, 0, "")}


def test_a_link_inside_is_packed_as_a_link(make: Make) -> None:
    root = make({"data/a": "x", "deep/er/b": "y"})
    (root / "deep" / "link").symlink_to("../data/a")
    (root / "absolute").symlink_to(root / "data")
    with pack(root) as archive:
        links = {info.name: info.linkname for info in members(archive) if info.issym()}
    assert links == {"deep/link": "../data/a", "absolute": "data"}


@pytest.mark.parametrize("target", ["../../secret", "/etc/passwd", "out/../../../secret"])
def test_a_link_that_leads_outside_is_refused_by_name(make: Make, target: str) -> None:
    root = make({"d/a": ""})
    (root / "d" / "leak").symlink_to(target)
    with pytest.raises(UnsafePath, match=r"d/leak points outside"):
        pack(root)
    assert names(root, "leak") == ["d/a"]


def test_a_link_through_another_link_is_followed_to_its_end(make: Make, tmp_path: Path) -> None:
    root = make({"a": ""})
    (tmp_path / "elsewhere").mkdir()
    (root / "b").symlink_to("c")
    (root / "c").symlink_to("../elsewhere")
    with pytest.raises(UnsafePath):
        pack(root)


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
        pack(root, max_bytes=1000)
    assert caught.value.details["biggest"][:2] == [
        {"name": "src/data/big.bin", "size": 900},
        {"name": "logs/", "size": 600},
    ]
    assert "'/src/data/big.bin'" in caught.value.hint
    assert ".anygpuignore" in caught.value.hint


def test_too_many_files_are_refused(make: Make) -> None:
    root = make({f"f{number}": "" for number in range(5)})
    with pytest.raises(TooLarge, match="5 files"):
        pack(root, max_files=4)


def test_nothing_is_left_when_packing_fails(make: Make, tmp_path: Path) -> None:
    root = make({"a": ""})
    (root / "leak").symlink_to("/etc")
    (tmp_path / "into").mkdir()
    with pytest.raises(UnsafePath):
        pack(root, into=tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_a_missing_directory_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not a directory"):
        pack(tmp_path / "nowhere")


def test_names_in_any_script_survive(make: Make) -> None:
    root = make({"données/été.py": "", "日本語.txt": "x" * 10, "a" * 150 + "/" + "b" * 150: "y"})
    with pack(root) as archive:
        assert [info.name for info in members(archive)] == sorted(archive.files)
