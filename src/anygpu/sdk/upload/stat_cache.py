"""A cache of file hashes, so that unchanged files are not read again for each snapshot."""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from anygpu.files import write_atomic
from anygpu.paths import cache_directory

# A file changed this soon before it was hashed could change again without a new modification time.
RACY_NS = 2_000_000_000

Signature = tuple[int, int, int, int]


class StatCache:
    """The SHA-256 of each file of one directory, by size, modification and change time, and inode.

    As in git, the entry of a file that was changed just before it was hashed is not trusted. Use the cache in
    a `with` block, which stores it at the end. A damaged or unwritable cache only costs time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._old = _load(path)
        self._new: dict[str, list[int | str]] = {}

    @classmethod
    def for_root(cls, root: Path, environ: Mapping[str, str] = os.environ) -> Self:
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:32]
        return cls(cache_directory(environ) / "hashes" / f"{name}.json")

    def sha256(self, path: Path, name: str) -> tuple[int, str]:
        """Return the size and the SHA-256 of a file. `name` is its path relative to the directory."""
        signature = _signature(path.stat())
        known = self._old.get(name)
        if known and tuple(known[:4]) == signature:
            self._new[name] = known
            return signature[0], str(known[4])
        return self._hash(path, name)

    def _hash(self, path: Path, name: str) -> tuple[int, str]:
        now_ns = time.time_ns()
        with path.open("rb") as file:
            before = _signature(os.fstat(file.fileno()))
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            after = _signature(os.fstat(file.fileno()))
            size = file.tell()
        if before == after and size == after[0] and max(after[1], after[2]) < now_ns - RACY_NS:
            self._new[name] = [*after, digest]
        return size, digest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._new != self._old:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_atomic(self._path, json.dumps(self._new).encode())


def _signature(status: os.stat_result) -> Signature:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _load(path: Path) -> dict[str, list[int | str]]:
    try:
        entries = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: entry for name, entry in entries.items() if isinstance(entry, list) and len(entry) == 5}
