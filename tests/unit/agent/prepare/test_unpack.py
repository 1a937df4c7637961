"""Archives made by anyone are unpacked safely."""

from __future__ import annotations

import gzip
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
    with pytest.raises(UnsafeArchive, match="has more than 1,000,000 bytes"):
        unpack(packed, str(tmp_path / "out"), max_bytes=1_000_000)
    assert not (tmp_path / "out" / "zeros").exists(), "the size is checked before the file is written"


def header(
    name: bytes, kind: bytes = b"0", size: bytes = b"0", link: bytes = b"", mtime: bytes = b"0"
) -> bytes:
    """A raw header block, with any values."""
    fields = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
    fields += size.rjust(11, b"0") + b"\0" + (mtime.rjust(11, b"0") + b"\0" if len(mtime) < 12 else mtime)
    rest = kind + link.ljust(100, b"\0") + b"ustar\x0000" + bytes(247)
    checksum = sum(fields) + 8 * 32 + sum(rest)
    return fields + b"%06o\0 " % checksum + rest


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def raw_archive(path: Path, *blocks: bytes) -> str:
    path.write_bytes(gzip.compress(b"".join(blocks) + bytes(1024)))
    return str(path)


def pax(data: bytes) -> bytes:
    return header(b"pax", b"x", b"%o" % len(data)) + padded(data)


FILE = header(b"f", b"0", b"1") + padded(b"x")


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([pax(b"0 a=b\n"), FILE], "invalid record"),
        ([pax(b"x a=b\n"), FILE], "invalid record"),
        ([pax(b"999 a=b\n"), FILE], "invalid record"),
        ([pax(b"-6 a=b\n"), FILE], "invalid record"),
        ([pax(b"1\xb2 a=b\n"), FILE], "invalid record"),
        ([pax(b"nonsense"), FILE], "invalid record"),
        ([pax(b"14 size=-9999\n"), FILE], "the size of 'f' is '-9999'"),
        ([pax(b"13 size=1e30\n"), FILE], "the size of 'f'"),
        ([pax(b"32 size=99999999999999999999999\n"), FILE], "the size of 'f'"),
        ([pax(b"12 path=a\0b\n"), FILE], "NUL"),
        ([pax(b"22 GNU.sparse.major=1\n"), FILE], "sparse"),
        ([header(b"f", b"S", b"1"), padded(b"x")], "sparse"),
        ([pax(b"6 a=b\n")] * 100 + [FILE], "too many extended headers"),
        ([header(b"big", b"0", b"77777777777")], "has more than 1,000,000,000 bytes"),
        ([header(b".", b"0", b"1"), padded(b"x")], "cannot be the name of a file"),
        ([FILE, header(b"f/g", b"0", b"1"), padded(b"x")], "as a file and as a directory"),
        ([header(b"d", b"5"), header(b"d", b"0", b"1"), padded(b"x")], "as a file and as a directory"),
        ([header(b"l", b"1", link=b"missing")], "does not come before it"),
    ],
)
def test_raw_headers_that_are_invalid_are_refused_with_the_reason(
    tmp_path: Path, blocks: list[bytes], reason: str
) -> None:
    packed = raw_archive(tmp_path / "a.tar.gz", *blocks)
    with pytest.raises(UnsafeArchive, match=reason):
        unpack(packed, str(tmp_path / "out"), max_bytes=10**9)


def test_a_hard_link_to_a_deeper_symbolic_link_does_not_leave_the_target(tmp_path: Path) -> None:
    packed = archive(
        tmp_path / "a.tar.gz",
        entry("a/b/c/inner", tarfile.SYMTYPE, "../../../x"),
        entry("outer", tarfile.LNKTYPE, "a/b/c/inner"),
        entry("outer", data=b"x"),
    )
    with pytest.raises(UnsafeArchive, match="outside of the working directory"):
        unpack(packed, str(tmp_path / "deep" / "er" / "out"))
    assert not any(path.name == "x" for path in tmp_path.rglob("*"))


def test_a_hard_link_to_a_symbolic_link_at_the_same_depth_works(tmp_path: Path) -> None:
    packed = archive(
        tmp_path / "a.tar.gz",
        entry("real", data=b"1"),
        entry("soft", tarfile.SYMTYPE, "real"),
        entry("hard", tarfile.LNKTYPE, "soft"),
    )
    unpack(packed, str(tmp_path / "out"))
    assert (tmp_path / "out" / "hard").read_bytes() == b"1"


def test_too_many_entries_are_refused_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anygpu.agent.prepare.unpack.MAX_ENTRIES", 10)
    packed = archive(tmp_path / "a.tar.gz", *(entry(f"e{number}") for number in range(11)))
    with pytest.raises(UnsafeArchive, match="more than 10 files and directories"):
        unpack(packed, str(tmp_path / "out"))
    unpack(
        archive(tmp_path / "b.tar.gz", *(entry(f"e{number}") for number in range(10))), str(tmp_path / "b")
    )


def test_a_time_beyond_every_calendar_is_accepted(tmp_path: Path) -> None:
    late = header(b"f", b"0", b"1", mtime=b"\x80" + b"\xff" * 11) + padded(b"x")
    unpack(raw_archive(tmp_path / "a.tar.gz", late), str(tmp_path / "out"))
    assert (tmp_path / "out" / "f").read_bytes() == b"x"


def test_bytes_after_the_archive_are_not_read(tmp_path: Path) -> None:
    packed = Path(archive(tmp_path / "a.tar.gz", entry("f", data=b"1")))
    packed.write_bytes(packed.read_bytes() + b"trailing" * 1000)
    unpack(str(packed), str(tmp_path / "out"))
    assert (tmp_path / "out" / "f").read_bytes() == b"1"


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
