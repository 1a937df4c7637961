"""The SSH keys of attempts, derived from the server's secret, and the stored host keys of machines."""

import contextlib
import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An Ed25519 key pair in OpenSSH format."""

    private_openssh: str
    public_openssh: str

    def __repr__(self) -> str:
        return f"KeyPair({self.public_openssh!r})"


@lru_cache(maxsize=4096)  # encoding takes a millisecond, and a broken link needs the key at every retry
def attempt_key(secret: bytes, name: str) -> KeyPair:
    """Derive the SSH key pair of an attempt from the server's secret.

    A restarted server derives the same key, so it can log in again.
    """
    # Imported here, because the library is slow to load.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    seed = hmac.new(secret, f"ssh key of {name}".encode(), hashlib.sha256).digest()
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), f"{public.decode()} {name}")


class HostKeyStore:
    """Stores the first host key that each machine presented, one file per name."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(self._path(name).read_text().splitlines())
        except FileNotFoundError:
            return ()

    def pin(self, name: str, key: str) -> tuple[str, ...]:
        """Store `key` for `name` unless a key is stored already. Return the stored keys."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f".{os.getpid()}-{id(self)}.tmp"
        draft.write_text(f"{key}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, self._path(name))  # atomic, and never replaces an existing key
        draft.unlink()
        return self.get(name)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.pub"
