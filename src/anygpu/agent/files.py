"""Write files atomically and compute their SHA-256."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BLOCK_BYTES = 2**20
SMALL_BYTES = 2**20


def file_sha256(path: str) -> str:
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


def write_json_atomic(path: str, value: dict[str, Any]) -> None:
    """Whole or not at all, and readable by nobody else: tokens and secrets pass through here."""
    draft = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(draft, path)
