"""Write files atomically and compute their SHA-256."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK_BYTES = 2**20
SMALL_BYTES = 2**20


def write_atomic(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace the file at `path`. Readers see either the complete old content or the complete new content."""
    draft = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
    os.replace(draft, path)


def write_json(path: str, value: dict[str, Any]) -> None:
    """Replace a JSON file. Only the owner can read the file, because it may contain tokens and secrets."""
    write_atomic(path, json.dumps(value).encode())


def file_sha256(path: str) -> str:
    sha = new_sha256(os.path.getsize(path))
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            sha.update(block)
    return str(sha.hexdigest())


def new_sha256(size: int = BLOCK_BYTES * 2) -> Any:
    """Return the SHA-256 object that is fastest for `size` bytes of input.

    OpenSSL's implementation is four times as fast, but loading it takes 3 ms, which is too long for a small
    file.
    """
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
