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
REGULAR, HARD_LINK, SYMLINK, DIRECTORY = b"0\0" + b"7", b"1", b"2", b"5"


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
    budget = min(max_bytes, _free_bytes(target))
    stream = _GzipStream(_blocks(parts))
    for count, entry in enumerate(_entries(stream)):
        budget -= entry.size
        if budget < 0 or count >= MAX_ENTRIES:
            raise UnsafeArchive(
                "the archive does not fit on the disk when unpacked. Leave out files that the job does not need."
            )
        _extract(entry, stream, target)


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
        raw = self._inflate.unconsumed_tail or next(self._blocks, b"")
        try:
            self._buffer += self._inflate.decompress(raw, READ_BYTES)
        except zlib.error as error:
            raise UnsafeArchive(f"the archive is not a .tar.gz: {error}") from error
        return bool(raw)


def _entries(stream: _GzipStream) -> Iterator[TarEntry]:
    overrides: dict[str, str] = {}
    while True:
        header = stream.read(BLOCK)
        if len(header) < BLOCK or not header.strip(b"\0"):
            return
        entry = _parse(header)
        if entry.kind in b"xgLK":
            _read_extended_header(entry, stream, overrides)
            continue
        entry.name = overrides.get("path", entry.name)
        entry.link = overrides.get("linkpath", entry.link)
        entry.size = int(overrides.get("size", entry.size)) if entry.kind in REGULAR else 0
        overrides = {}
        yield entry


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
    while data:
        digits, _, _ = data.partition(b" ")
        record, data = data[: int(digits)], data[int(digits) :]
        key, _, value = record[len(digits) + 1 : -1].partition(b"=")
        yield key.decode(), value.decode("utf-8", "surrogateescape")


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
    if path == target:
        return
    if entry.kind == DIRECTORY:
        os.makedirs(path, exist_ok=True)
    elif entry.kind in REGULAR:
        _write(entry, stream, path)
    elif entry.kind == SYMLINK:
        _symlink(entry, path, target)
    elif entry.kind == HARD_LINK:
        _make_way(path)
        os.link(_target_path(entry.link, target), path, follow_symlinks=False)
    else:
        raise UnsafeArchive(f"{entry.name!r} is a device or another special file. Exclude it.")


def _target_path(name: str, target: str) -> str:
    """Return the path at which to unpack an entry of the archive.

    Raise `UnsafeArchive` if its name is absolute, contains `..` or passes through a symbolic link.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise UnsafeArchive(f"{name!r} would be unpacked outside of the working directory")
    path = target
    for part in parts[:-1]:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise UnsafeArchive(f"{name!r} would be unpacked through a link")
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
        raise UnsafeArchive(f"{entry.name!r} is a link that leaves the working directory: {entry.link!r}")
    _make_way(path)
    os.symlink(entry.link, path)


def _write(entry: TarEntry, stream: _GzipStream, path: str) -> None:
    _make_way(path)
    mode = (entry.mode & 0o777) | 0o600
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        for block in stream.blocks(entry.size):
            file.write(block)
    stream.skip_padding(entry.size)
    os.utime(path, (entry.mtime, entry.mtime))


def _make_way(path: str) -> None:
    """Remove an earlier file at `path`, so that a new one can be created. Create missing parent directories."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _free_bytes(directory: str) -> int:
    disk = os.statvfs(directory)
    return int(disk.f_bavail * disk.f_frsize)
