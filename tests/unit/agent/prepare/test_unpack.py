"""Archives made by anyone are unpacked safely."""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.agent.prepare.unpack import UnsafeArchive, unpack


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mtime = kind, link, len(data), 1_700_000_000
    return info, data


def archive(path: Path, *entries: tuple[tarfile.TarInfo, bytes], layout: int = tarfile.PAX_FORMAT) -> str:
    with tarfile.open(path, "w:gz", format=layout) as file:
        for info, data in entries:
            file.addfile(info, io.BytesIO(data))
    return str(path)


@pytest.mark.parametrize("layout", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_long_and_non_ascii_names_modes_and_times_are_kept(tmp_path: Path, layout: int) -> None:
    name = "deep/" * 40 + "größe.py"
    info, data = entry(name, data=b"x" * 100_000)
    info.mode = 0o755
    unpack(
        archive(tmp_path / "a.tar.gz", (info, data), entry("empty", tarfile.DIRTYPE), layout=layout),
        str(tmp_path / "out"),
    )
    found = tmp_path / "out" / name
    assert found.read_bytes() == data
    assert found.stat().st_mode & 0o777 == 0o755
    assert found.stat().st_mtime == 1_700_000_000
    assert (tmp_path / "out" / "empty").is_dir()


def test_links_that_stay_inside_work(tmp_path: Path) -> None:
    entries = [
        entry("a/real", data=b"1"),
        entry("a/soft", tarfile.SYMTYPE, "real"),
        entry("b/up", tarfile.SYMTYPE, "../a/real"),
    ]
    unpack(
        archive(tmp_path / "a.tar.gz", *entries, entry("hard", tarfile.LNKTYPE, "a/real")),
        str(tmp_path / "out"),
    )
    assert [(tmp_path / "out" / name).read_bytes() for name in ("a/soft", "b/up", "hard")] == [
        b"1",
        b"1",
        b"1",
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [entry("/etc/passwd", data=b"x")],
        [entry("../up", data=b"x")],
        [entry("a/../../up", data=b"x")],
        [entry("out", tarfile.SYMTYPE, "/etc")],
        [entry("out", tarfile.SYMTYPE, "../..")],
        [entry("a/out", tarfile.SYMTYPE, "../../x")],
        [entry("d", tarfile.DIRTYPE), entry("s", tarfile.SYMTYPE, "d"), entry("s/x", data=b"x")],
        [entry("p/q/r", tarfile.SYMTYPE, "../.."), entry("l", tarfile.SYMTYPE, "p/q/r/../../../x")],
        [entry("p", tarfile.LNKTYPE, "../../etc/passwd")],
        [entry("dev", tarfile.CHRTYPE)],
        [entry("pipe", tarfile.FIFOTYPE)],
    ],
    ids=lambda entries: entries[-1][0].name,
)
def test_entries_outside_of_the_target_and_special_files_are_refused(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    packed = archive(tmp_path / "a.tar.gz", *entries)
    with pytest.raises(UnsafeArchive):
        unpack(packed, str(tmp_path / "deep" / "out"))
    assert not (tmp_path / "up").exists()
    assert not (tmp_path / "deep" / "up").exists()


def test_an_archive_that_unpacks_to_more_than_allowed_is_refused(tmp_path: Path) -> None:
    packed = archive(tmp_path / "a.tar.gz", entry("zeros", data=bytes(2_000_000)))
    with pytest.raises(UnsafeArchive, match="does not fit on the disk"):
        unpack(packed, str(tmp_path / "out"), max_bytes=1_000_000)


@given(st.binary(max_size=2000), st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_damaged_archives_raise_only_the_expected_error(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int
) -> None:
    place = tmp_path_factory.mktemp("damaged")
    packed = Path(archive(place / "a.tar.gz", entry("a/b", data=os.urandom(300)), entry("c", data=b"c")))
    data = packed.read_bytes()
    packed.write_bytes(data[:at] + noise + data[at + len(noise) :])
    with suppress(UnsafeArchive):
        unpack(str(packed), str(place / "out"))
    assert {path.name for path in place.iterdir()} <= {"a.tar.gz", "out"}
