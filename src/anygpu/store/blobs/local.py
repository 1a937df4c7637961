"""Blobs as files in a local directory."""

import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Self

from anygpu.store.blobs.contract import BlobInfo, Method
from anygpu.store.blobs.keys import STAGING, require_safe_key, require_signable_key
from anygpu.store.blobs.object_store import (
    PIECE_BYTES,
    ObstoreReader,
    one_piece,
    rechunk,
    translate_read_errors,
    translate_write_errors,
)
from anygpu.store.blobs.signing import sign_url

MOVE_TRIES = 10


class AtomicFile:
    """The temporary file to which one put writes its data.

    `publish` renames the file to its final name. Without `publish`, the file is deleted at the end of the
    `with` block. The methods block: call them in a thread.
    """

    def __init__(self, directory: Path, key: str) -> None:
        self.path = directory / f"anygpu-put-{secrets.token_hex(12)}"
        self._key = key

    def __enter__(self) -> Self:
        with translate_write_errors(self._key):
            # The buffer's lock makes `close` wait for a write that a cancelled put left behind.
            self._file = open(self.path, "xb", buffering=PIECE_BYTES, opener=_open_private)
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)
        with translate_write_errors(self._key):
            self._file.close()

    def write(self, piece: bytes) -> None:
        with translate_write_errors(self._key):
            self._file.write(piece)

    def flush(self) -> os.stat_result:
        """Write the buffer to the file and return the status of the file."""
        with translate_write_errors(self._key):
            self._file.flush()
            return os.fstat(self._file.fileno())

    def publish(self, root: Path) -> BlobInfo:
        """Make the file durable, then rename it to its key below `root`."""
        status = self.flush()
        with translate_write_errors(self._key):
            os.fsync(self._file.fileno())
            move_file(self.path, root / self._key, root)
        return BlobInfo(key=self._key, size=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def move_file(source: Path, target: Path, root: Path) -> None:
    """Rename `source` to `target` and make the new name durable.

    If a concurrent delete removes the still empty directory of `target`, try again.
    """
    directory = target.parent
    for left in reversed(range(MOVE_TRIES)):
        new = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        try:
            source.replace(target)
        except FileNotFoundError:
            if not left or not source.exists():
                raise
        else:
            _fsync_directories(directory, up_to=root if new else directory)
            return


def _remove_empty_directories(directory: Path, root: Path) -> None:
    while directory != root:
        try:
            directory.rmdir()
        except OSError:  # not empty, or already removed
            return
        directory = directory.parent


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _fsync_directories(directory: Path, *, up_to: Path) -> None:
    """Call fsync on a directory and on each of its parents up to `up_to`.

    Without this call, a power failure can remove a file name that was just added to the directory.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        return  # already deleted again
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if directory != up_to:
        _fsync_directories(directory.parent, up_to=up_to)


class LocalBlobs(ObstoreReader):
    """Blobs as files in a directory.

    A blob becomes visible only after its bytes are safely on disk. The server itself signs URLs and answers
    requests to them. The put of obstore's own local store is not used, because it does not call fsync, so a
    power failure could lose the blob.
    """

    def __init__(
        self, root: Path, *, secret: bytes, base_url: str = "", now_s: Callable[[], float] = time.time
    ) -> None:
        from obstore.store import LocalStore

        self.root = root.resolve()
        self.base_url = base_url
        self._secret, self._now_s = secret, now_s
        self._staging = self.root / STAGING
        with translate_write_errors(str(root)):
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._staging.mkdir(exist_ok=True, mode=0o700)
            super().__init__(LocalStore(self.root, automatic_cleanup=True))

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        pieces = one_piece(data) if isinstance(data, bytes) else data
        with AtomicFile(self._staging, require_safe_key(key)) as file:
            async for piece in rechunk(pieces, PIECE_BYTES):
                await self._in_thread(file.write, piece)
            return await self._in_thread(file.publish, self.root)

    async def move(self, source: str, target: str) -> None:
        old, new = (self.root / require_safe_key(key) for key in (source, target))
        await self._in_thread(self._move, source, old, new)

    def _move(self, key: str, old: Path, new: Path) -> None:
        with translate_read_errors(key):
            if old.is_dir():
                raise FileNotFoundError(key)
            move_file(old, new, self.root)
        _remove_empty_directories(old.parent, self.root)

    async def sign(self, method: Method, key: str, *, expires_s: float, max_size: int | None = None) -> str:
        expires_at = self._now_s() + expires_s
        return sign_url(
            self.base_url, method, require_signable_key(key), expires_at, self._secret, max_size=max_size
        )

    async def sweep_unfinished(self, before_ms: int, *, dry_run: bool = False) -> list[BlobInfo]:
        """Delete the files of interrupted puts that were last written before `before_ms`, and return them.

        In a dry run nothing is deleted.
        """
        return await self._in_thread(_sweep_directory, self._staging, before_ms, dry_run)


def _sweep_directory(directory: Path, before_ms: int, dry_run: bool) -> list[BlobInfo]:
    swept = []
    for path in directory.iterdir():
        status = path.stat()
        modified_ms = status.st_mtime_ns // 1_000_000
        if modified_ms < before_ms:
            swept.append(BlobInfo(key=f"{STAGING}/{path.name}", size=status.st_size, modified_ms=modified_ms))
            if not dry_run:
                path.unlink(missing_ok=True)
    return swept
