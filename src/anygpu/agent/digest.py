"""SHA-256 of files."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK_BYTES = 2**20
SMALL_BYTES = 2**20


def sha256_of_file(path: str) -> str:
    sha = new_sha256(os.path.getsize(path))
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            sha.update(block)
    return str(sha.hexdigest())


def new_sha256(size: int = BLOCK_BYTES * 2) -> Any:
    """OpenSSL's is four times as fast and costs 3 ms to load, which a small archive at the start should not pay."""
    if size <= SMALL_BYTES:
        try:
            from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            pass
        else:
            return sha256()
        try:
            from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore,no-redef]
        except ImportError:
            pass
        else:
            return sha256()
    import hashlib

    return hashlib.sha256()
