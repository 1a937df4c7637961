"""Unpack a .tar.gz file safely, even if the file is malicious.

The standard tarfile module takes 15 ms to import and has no safe mode before Python 3.12.
"""

from __future__ import annotations

import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 512
READ_BYTES = 262144
MAX_BYTES = 16 * 2**30
MAX_ENTRIES = 1_000_000
MAX_HEADER_BYTES = 2**20
MAX_EXTENDED_HEADERS = 16  # before one entry; two are usual
MAX_EXTENDED_BYTES = 2**31  # in the whole archive
MAX_MTIME = 2**33
REGULAR, HARD_LINK, SYMLINK, DIRECTORY, SPARSE = b"0\0" + b"7", b"1", b"2", b"5", b"S"


class UnsafeArchive(Exception):
    """The file is not an archive, or contains an entry that must not be unpacked."""


class TarEntry:
    __slots__ = ("kind", "link", "mode", "mtime", "name", "size")

    def __init__(self, kind: bytes, name: str, link: str, size: int, mode: int, mtime: int) -> None:
        self.kind, self.name, self.link = kind, name, link
        self.size, self.mode, self.mtime = size, mode, mtime


def unpack(archive: str, target: str, max_bytes: int = MAX_BYTES) -> None:
    """Unpack the file `archive` below `target`. Raise `UnsafeArchive` for a damaged or malicious archive."""
    unpack_parts(iter([archive]), target, max_bytes)


def unpack_parts(parts: Iterator[str], target: str, max_bytes: int = MAX_BYTES) -> None:
    """Unpack an archive that was split into several files. Each file is requested when it is needed."""
    os.makedirs(target, exist_ok=True)
    free_bytes, total_bytes = _free_bytes(target), 0
    stream = _GzipStream(_blocks(parts))
    for number, entry in enumerate(_entries(stream), 1):
        total_bytes += entry.size
        _check_limits(number, total_bytes, max_bytes, free_bytes)
        _extract(entry, stream, target)


def _check_limits(entries: int, total_bytes: int, max_bytes: int, free_bytes: int) -> None:
    """Raise `UnsafeArchive` if the entries so far exceed a limit. Called before an entry is written."""
    advice = "Leave out files that the job does not need (list them in .anygpuignore)."
    if entries > MAX_ENTRIES:
        raise UnsafeArchive(f"the archive has more than {MAX_ENTRIES:,} files and directories. {advice}")
    if total_bytes > max_bytes:
        raise UnsafeArchive(
            f"the archive has more than {max_bytes:,} bytes when it is unpacked, which is the limit. {advice}"
        )
    if total_bytes > free_bytes:
        raise UnsafeArchive(
            f"the archive does not fit on the disk, which has {free_bytes:,} bytes free. {advice}"
        )


def _blocks(paths: Iterator[str]) -> Iterator[bytes]:
    for path in paths:
        with open(path, "rb") as file:
            yield from iter(lambda: file.read(READ_BYTES), b"")


class _GzipStream:
    """Decompresses the blocks of a gzip file and returns exact numbers of bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._inflate = zlib.decompressobj(31)
        self._buffer = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def blocks(self, size: int) -> Iterator[bytes]:
        while size:
            block = self.read(min(size, READ_BYTES))
            if not block:
                raise UnsafeArchive(
                    "the archive is damaged: it ends in the middle of a file. Submit the job again."
                )
            size -= len(block)
            yield block

    def skip_padding(self, size: int) -> None:
        self.read(-size % BLOCK)

    def _more(self) -> bool:
        if self._inflate.eof:
            return False
        raw = self._inflate.unconsumed_tail or next(self._blocks, b"")
        try:
            self._buffer += self._inflate.decompress(raw, READ_BYTES)
        except zlib.error as error:
            raise UnsafeArchive(
                f"the archive is not a .tar.gz file, or it is damaged: {error}. Submit the job again."
            ) from error
        return bool(raw)


def _entries(stream: _GzipStream) -> Iterator[TarEntry]:
    overrides: dict[str, str] = {}
    extended = extended_bytes = 0
    while True:
        header = stream.read(BLOCK)
        if len(header) < BLOCK or not header.strip(b"\0"):
            return
        entry = _parse(header)
        if entry.kind in b"xgLK":
            extended, extended_bytes = extended + 1, extended_bytes + entry.size
            if extended > MAX_EXTENDED_HEADERS or extended_bytes > MAX_EXTENDED_BYTES:
                raise UnsafeArchive("the archive has too many extended headers. Submit the job again.")
            _read_extended_header(entry, stream, overrides)
            continue
        _apply_overrides(entry, overrides)
        overrides, extended = {}, 0
        yield entry


def _apply_overrides(entry: TarEntry, overrides: dict[str, str]) -> None:
    if entry.kind == SPARSE or any(key.startswith("GNU.sparse.") for key in overrides):
        raise UnsafeArchive(
            f"the archive stores {entry.name!r} as a sparse file, which is not supported. Leave it out, or "
            "pack it without tar's option --sparse."
        )
    entry.name = overrides.get("path", entry.name)
    entry.link = overrides.get("linkpath", entry.link)
    if "\0" in entry.name or "\0" in entry.link:
        raise UnsafeArchive(
            f"the archive has a file with a NUL character in its name, {entry.name!r}. Rename it, or leave it "
            "out."
        )
    size = overrides.get("size")
    if size is not None and not _is_number(size):
        raise UnsafeArchive(
            f"the archive is damaged: the size of {entry.name!r} is {size[:40]!r}, which is not a number. "
            "Submit the job again."
        )
    entry.size = (entry.size if size is None else int(size)) if entry.kind in REGULAR else 0


def _parse(header: bytes) -> TarEntry:
    if sum(header[:148]) + 8 * 32 + sum(header[156:]) != _number(header[148:156]):
        raise UnsafeArchive("the archive is damaged (wrong checksum in a header). Submit the job again.")
    name = _text(header[:100])
    if header[257:263] == b"ustar\0" and header[345] != 0:
        name = f"{_text(header[345:500])}/{name}"
    size, mode, mtime = _number(header[124:136]), _number(header[100:108]), _number(header[136:148])
    return TarEntry(header[156:157], name, _text(header[157:257]), size, mode, mtime)


def _read_extended_header(entry: TarEntry, stream: _GzipStream, overrides: dict[str, str]) -> None:
    """Read a header with a long name or a large size, and store it in `overrides` for the next entry."""
    if entry.size > MAX_HEADER_BYTES:
        raise UnsafeArchive("the archive has a header larger than 1 MiB. Submit the job again.")
    data = b"".join(stream.blocks(entry.size))
    stream.skip_padding(entry.size)
    if entry.kind in b"LK":
        overrides["path" if entry.kind == b"L" else "linkpath"] = _text(data)
    elif entry.kind == b"x":
        overrides.update(_pax(data))


def _pax(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of each record of an extended header. A record is `<its length> <key>=<value>\\n`."""
    while data:
        digits, space, _ = data.partition(b" ")
        size = int(digits) if space and _is_number(digits.decode("latin-1")) else 0
        if not len(digits) + 2 < size <= len(data):
            raise UnsafeArchive("the archive is damaged (invalid record in a header). Submit the job again.")
        record, data = data[:size], data[size:]
        key, _, value = record[len(digits) + 1 : -1].partition(b"=")
        yield key.decode("utf-8", "surrogateescape"), value.decode("utf-8", "surrogateescape")


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) < 20


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ~(0x80 << (8 * (len(field) - 1)))
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError as error:
        raise UnsafeArchive(
            "the archive is damaged (invalid number in a header). Submit the job again."
        ) from error


def _extract(entry: TarEntry, stream: _GzipStream, target: str) -> None:
    path = _target_path(entry.name, target)
    if path == target and entry.kind == DIRECTORY:
        return
    if path == target:
        raise UnsafeArchive(
            f"the archive has an entry {entry.name!r}, which cannot be the name of a file. Pack it again "
            "without this entry."
        )
    try:
        _create(entry, stream, path, target)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise UnsafeArchive(
            f"{entry.name!r} is in the archive twice: as a file and as a directory. Pack it again with only "
            "one of them."
        ) from error


def _create(entry: TarEntry, stream: _GzipStream, path: str, target: str) -> None:
    if entry.kind == DIRECTORY:
        os.makedirs(path, exist_ok=True)
    elif entry.kind in REGULAR:
        _write(entry, stream, path)
    elif entry.kind == SYMLINK:
        _symlink(entry, path, target)
    elif entry.kind == HARD_LINK:
        _hard_link(entry, path, target)
    else:
        raise UnsafeArchive(
            f"{entry.name!r} is a device or another special file, which cannot be unpacked. Leave it out."
        )


def _target_path(name: str, target: str) -> str:
    """Return the path at which to unpack an entry of the archive.

    Raise `UnsafeArchive` if its name is absolute, contains `..` or passes through a symbolic link.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise UnsafeArchive(
            f"{name!r} in the archive would be unpacked outside of the working directory. Use relative paths "
            "without `..`."
        )
    path = target
    for part in parts[:-1]:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise UnsafeArchive(
                f"{name!r} in the archive would be unpacked through a symbolic link. Replace the link by a "
                "directory."
            )
    return os.path.join(path, *parts[-1:])


def _symlink(entry: TarEntry, path: str, target: str) -> None:
    """Create a symbolic link. Raise `UnsafeArchive` if it could lead outside `target`.

    The path in the link may contain `..` only at its beginning and not above `target`. So no chain of links
    leads outside either.
    """
    parts = [part for part in entry.link.split("/") if part not in ("", ".")]
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    depth = len(os.path.relpath(path, target).split(os.sep)) - 1
    if entry.link.startswith("/") or ups > depth or ".." in parts[ups:]:
        raise UnsafeArchive(
            f"{entry.name!r} is a link to {entry.link!r}, outside of the working directory. Replace the link "
            "by a copy, or leave it out."
        )
    _make_way(path)
    os.symlink(entry.link, path)


def _hard_link(entry: TarEntry, path: str, target: str) -> None:
    """Create a hard link to an earlier entry.

    If that entry is a symbolic link, it is created again at `path` and checked there: a relative link leads
    to another place from another depth.
    """
    source = _target_path(entry.link, target)
    if os.path.islink(source):
        entry.link = os.readlink(source)
        _symlink(entry, path, target)
    elif not os.path.isfile(source):
        raise UnsafeArchive(
            f"{entry.name!r} is a hard link to {entry.link!r}, which does not come before it in the archive. "
            "Replace the link by a copy."
        )
    elif source != path:
        _make_way(path)
        os.link(source, path, follow_symlinks=False)


def _write(entry: TarEntry, stream: _GzipStream, path: str) -> None:
    _make_way(path)
    mode = (entry.mode & 0o777) | 0o600
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        for block in stream.blocks(entry.size):
            file.write(block)
    stream.skip_padding(entry.size)
    mtime = min(entry.mtime, MAX_MTIME)
    os.utime(path, (mtime, mtime))


def _make_way(path: str) -> None:
    """Remove an earlier file at `path`, so that a new one can be created. Create missing parent directories."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _free_bytes(directory: str) -> int:
    disk = os.statvfs(directory)
    return int(disk.f_bavail * disk.f_frsize)
