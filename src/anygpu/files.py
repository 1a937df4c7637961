"""Atomic replacement of files. The agent has its own helper."""

import os
from pathlib import Path

OWNER_ONLY = 0o600


def write_atomic(path: Path, data: bytes, *, mode: int = OWNER_ONLY, overwrite: bool = True) -> None:
    """Write a file atomically: readers, also after a crash, see either the old content or the new one.

    Raises FileExistsError if the file exists and `overwrite` is false.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            draft.replace(path)
        else:
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
