"""Unpack dataset archives into a cache. An archive that could write outside the cache is rejected."""

from __future__ import annotations

import hashlib
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from anygpu.trainers.data.files import split_name
from anygpu.trainers.errors import BadDataset, Finding

ZIP = (".zip",)
TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
GIB = 1 << 30
ABANDONED_S = 24 * 3600
_UNSAFE = re.compile(r"[\\\0]|^[A-Za-z]:")  # separators and drive letters of other systems
BROKEN = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, RuntimeError)


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """Limits on the unpacked content, to reject archives that were made to fill a disk.

    `growth`: largest allowed ratio of unpacked to packed size. Archives of images have a ratio close to 1.
    """

    files: int = 5_000_000
    bytes: int = 4096 * GIB
    growth: int = 1_000


class ArchiveRefused(Exception):
    """The archive has content that is not allowed; the message says which."""


def is_archive(path: Path) -> bool:
    return path.name.lower().endswith((*ZIP, *TAR)) and path.is_file()


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "anygpu" / "datasets"


def open_dataset(
    path: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str] | None = None,
    limits: ArchiveLimits | None = None,
) -> Path:
    """Return the folder of the dataset in an archive; unpack the archive unless the cache has it already.

    A path that is not an archive is returned unchanged. The name in the cache is the hash of the archive.
    """
    archive = Path(path)
    if not is_archive(archive):
        return archive
    cache = Path(cache_dir or default_cache())
    target = cache / _sha256(archive)
    if not target.is_dir():
        _unpack_whole(archive, target, limits or ArchiveLimits())
    return _top(target)


def _unpack_whole(archive: Path, target: Path, limits: ArchiveLimits) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(target.parent)
    draft = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        _unpack(archive, _BoundedWriter(draft, archive, limits))
        draft.chmod(0o755)
        _put_in_place(draft, target)
    except (ArchiveRefused, *BROKEN) as error:
        what = (
            str(error)
            if isinstance(error, ArchiveRefused)
            else f"the archive is damaged or cannot be unpacked: {error}; create it again"
        )
        raise BadDataset([Finding(archive, what)]) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _put_in_place(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        if not target.is_dir():  # if it is, another process unpacked the same archive meanwhile
            raise


def _remove_abandoned(cache: Path) -> None:
    """Remove temporary folders older than a day, left by processes that were killed while unpacking."""
    for draft in cache.glob(".unpacking-*"):
        if time.time() - draft.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(draft, ignore_errors=True)


class _BoundedWriter:
    """Writes the unpacked files and enforces the limits.

    It counts the bytes it writes, because the sizes stated in an archive may be wrong.
    """

    def __init__(self, folder: Path, archive: Path, limits: ArchiveLimits) -> None:
        self.folder = folder
        self._files, self._bytes = limits.files, limits.bytes
        self._bytes = min(self._bytes, GIB + limits.growth * archive.stat().st_size)
        self._free = shutil.disk_usage(folder).free

    def put(self, name: str, content: IO[bytes]) -> None:
        path = self.folder / safe(name)
        self._files -= 1
        if self._files < 0:
            raise ArchiveRefused("the archive has too many files; give a folder instead")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _create_file(path, name) as file:
            while chunk := content.read(1 << 20):
                self._count(len(chunk))
                file.write(chunk)

    def read_on(self, rest: Any) -> None:
        """Read `rest` to its end, because the decompressor verifies its checksum only there."""
        while chunk := rest.read(1 << 20):
            self._count(len(chunk))

    def _count(self, size: int) -> None:
        self._bytes -= size
        self._free -= size
        if self._bytes < 0:
            raise ArchiveRefused(
                "the archive is too large when unpacked, or too large for its packed size; give a folder instead"
            )
        if self._free < 0:
            raise ArchiveRefused(
                f"not enough free disk space in {self.folder.parent} to unpack the archive; free some space"
            )


@contextmanager
def _create_file(path: Path, name: str) -> Iterator[IO[bytes]]:
    try:
        file = path.open("xb")
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        raise ArchiveRefused(f"{name!r} is in the archive twice; create the archive again") from None
    with file:
        yield file


def safe(name: str) -> PurePosixPath:
    """Return `name` as a safe path; raise ArchiveRefused if it could lead out of the target folder on any system."""
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or _UNSAFE.search(name):
        raise ArchiveRefused(
            f"{name[:80]!r} in the archive points outside the archive; pack the files with relative paths"
        )
    return path


def _is_noise(name: str) -> bool:
    """Return whether the file is metadata that macOS adds to archives."""
    parts = PurePosixPath(name).parts
    return "__MACOSX" in parts or (bool(parts) and (parts[-1].startswith("._") or parts[-1] == ".DS_Store"))


def _unpack(archive: Path, room: _BoundedWriter) -> None:
    if archive.name.lower().endswith(ZIP):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                _unzip(zipped, info, room)
    else:
        with tarfile.open(archive) as tarred:
            for member in tarred:
                _untar(tarred, member, room)
            room.read_on(tarred.fileobj)


def _unzip(zipped: zipfile.ZipFile, info: zipfile.ZipInfo, room: _BoundedWriter) -> None:
    if info.is_dir() or _is_noise(info.filename):
        safe(info.filename)
        return
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise ArchiveRefused(
            f"{info.filename!r} in the archive is a link or a device; pack the files themselves"
        )
    with zipped.open(info) as content:
        room.put(info.filename, content)


def _untar(tarred: tarfile.TarFile, member: tarfile.TarInfo, room: _BoundedWriter) -> None:
    if member.isdir() or _is_noise(member.name):
        if member.name not in (".", "./"):
            safe(member.name)
        return
    if not (member.isfile() or member.issym() or member.islnk()):
        raise ArchiveRefused(f"{member.name!r} in the archive is a device or a pipe; pack regular files only")
    with _content(tarred, member) as content:
        room.put(member.name, content)


def _content(tarred: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Open the content of an entry of an archive; for a link, the content of the file it points to in the archive."""
    if member.issym():
        safe(os.path.normpath(PurePosixPath(member.name).parent / member.linkname))
    try:
        content = tarred.extractfile(member)
    except KeyError:
        content = None
    if content is None:
        raise ArchiveRefused(
            f"{member.name!r} links to {member.linkname!r}, which is not a file in the archive; pack the file itself"
        )
    return content


def _top(folder: Path) -> Path:
    """Return the folder that contains the dataset: folders that contain only one folder are skipped."""
    inside = [each for each in folder.iterdir() if not each.name.startswith(".")]
    if len(inside) != 1 or not inside[0].is_dir() or split_name(inside[0].name):
        return folder
    return _top(inside[0])


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
