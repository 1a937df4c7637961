"""The files of a packed working directory that may say something of the work. Anyone may have made the archive."""

import io
import tarfile
import zlib
from pathlib import PurePosixPath

from anygpu.plan.workload import MOST_BYTES, MOST_FILES, READ

MOST_ARCHIVE_BYTES = 32 * 1024 * 1024
MOST_UNPACKED_BYTES = 64 * 1024 * 1024
MOST_ENTRIES = 20_000


def texts(archive: bytes, subdir: str = "") -> dict[str, bytes]:
    """By their paths below `subdir`. What is broken, huge or no archive yields what was read before that."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=_Unpacked(archive), mode="r|") as tar:
            for count, entry in enumerate(tar):
                if count >= MOST_ENTRIES or len(found) >= MOST_FILES:
                    break
                name = _inside(entry.name, subdir)
                if name and entry.isfile() and entry.size <= MOST_BYTES and name.endswith(READ):
                    file = tar.extractfile(entry)
                    found[name] = file.read() if file is not None else b""
    except (tarfile.TarError, zlib.error, EOFError, ValueError, OSError):
        pass
    return found


def _inside(name: str, subdir: str) -> str:
    path = PurePosixPath(name)
    if not subdir:
        return path.as_posix()
    return path.relative_to(subdir).as_posix() if path.is_relative_to(subdir) else ""


class _Unpacked(io.RawIOBase):
    """Inflates as it is read, and stops at a size: a small archive can unpack to a very large one."""

    def __init__(self, archive: bytes) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._rest, self._left = archive, MOST_UNPACKED_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most so many bytes; `size` is never negative here."""
        if self._left <= 0:
            raise tarfile.ReadError("more than is read of an archive")
        piece = self._inflate.decompress(self._rest, max(1, size))
        self._rest = self._inflate.unconsumed_tail
        self._left -= len(piece)
        return piece
