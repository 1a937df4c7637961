"""A file written aside: it gets its name when it is whole and on the disk, or never."""

import os
import secrets
from pathlib import Path
from typing import Self

from anygpu.store.blobs import BlobInfo
from anygpu.store.objects.base import PIECE_BYTES
from anygpu.store.objects.faults import writing

MOVE_TRIES = 10


class AsideFile:
    """The bytes of one put while they come; gone at the end of the block. Its methods block: use a thread."""

    def __init__(self, directory: Path, key: str) -> None:
        self.path = directory / f"anygpu-put-{secrets.token_hex(12)}"
        self._key = key

    def __enter__(self) -> Self:
        with writing(self._key):
            # Buffered on purpose: its lock makes closing wait for a write that a cancelled put left behind.
            self._file = open(self.path, "xb", buffering=PIECE_BYTES, opener=_for_us_alone)
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
        with writing(self._key):
            self._file.close()

    def write(self, piece: bytes) -> None:
        with writing(self._key):
            self._file.write(piece)

    def whole(self) -> os.stat_result:
        """Everything is in the file now."""
        with writing(self._key):
            self._file.flush()
            return os.fstat(self._file.fileno())

    def give_name(self, root: Path) -> BlobInfo:
        """Durable first, then visible."""
        found = self.whole()
        with writing(self._key):
            os.fsync(self._file.fileno())
            self._move(root, root / self._key)
        return BlobInfo(key=self._key, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def _move(self, root: Path, target: Path) -> None:
        """A delete beside us may remove the directory as empty between its making and its use: try again."""
        directory = target.parent
        for left in reversed(range(MOVE_TRIES)):
            new = not directory.exists()
            directory.mkdir(parents=True, exist_ok=True)
            try:
                self.path.replace(target)
            except FileNotFoundError:
                if not left or not self.path.exists():
                    raise
            else:
                _sync(directory, up_to=root if new else directory)
                return


def _for_us_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync(directory: Path, *, up_to: Path) -> None:
    """A new name is durable once its directory is, and the directories made for it."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return  # deleted again already
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if directory != up_to:
        _sync(directory.parent, up_to=up_to)
