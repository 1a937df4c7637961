"""A file written aside: it gets its name when it is whole and on the disk, or never."""

import os
import secrets
from pathlib import Path
from typing import Self

from anygpu.store.blobs import BlobInfo
from anygpu.store.objects.base import PIECE_BYTES
from anygpu.store.objects.faults import writing

MOVE_TRIES = 10


class StagedFile:
    """One put under way. Its methods block: call them in a thread."""

    def __init__(self, staging: Path, root: Path, key: str) -> None:
        self._root, self._key = root, key
        self._target = root / key
        self._path = staging / secrets.token_hex(12)

    def __enter__(self) -> Self:
        with writing(self._key):
            # Buffered on purpose: its lock makes closing wait for a write that a cancelled put left behind.
            self._file = self._path.open("xb", buffering=PIECE_BYTES)
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        with writing(self._key):
            self._file.close()

    def write(self, piece: bytes) -> None:
        with writing(self._key):
            self._file.write(piece)

    def give_name(self) -> BlobInfo:
        with writing(self._key):
            self._file.flush()
            os.fsync(self._file.fileno())
            found = os.fstat(self._file.fileno())
            self._move()
        return BlobInfo(key=self._key, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def _move(self) -> None:
        """A delete beside us may remove the directory as empty between its making and its use: try again."""
        directory = self._target.parent
        for left in reversed(range(MOVE_TRIES)):
            new = not directory.exists()
            directory.mkdir(parents=True, exist_ok=True)
            try:
                self._path.replace(self._target)
            except FileNotFoundError:
                if not left or not self._path.exists():
                    raise
            else:
                _sync(directory, up_to=self._root if new else directory)
                return


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
