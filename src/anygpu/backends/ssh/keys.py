"""SSH keys of attempts, derived from the server's secret, and the pinned host keys of machines."""

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
    """One Ed25519 key, both halves in OpenSSH's format."""

    private_openssh: str
    public_openssh: str

    def __repr__(self) -> str:
        return f"KeyPair({self.public_openssh!r})"


@lru_cache(maxsize=4096)  # writing one down takes a millisecond, and a link that is broken asks at every try
def attempt_key(secret: bytes, name: str) -> KeyPair:
    """The same secret and name always give the same key: a restarted server can log in again."""
    # Imported here: the library takes longer to load than most commands take to run.
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
    """One small file per machine. The first key kept under a name stays, whoever else wants to keep another."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(self._path(name).read_text().splitlines())
        except FileNotFoundError:
            return ()

    def pin(self, name: str, key: str) -> tuple[str, ...]:
        """What is expected of this machine from now on: `key`, unless another was kept first."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f".{os.getpid()}-{id(self)}.tmp"
        draft.write_text(f"{key}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, self._path(name))  # whole or not at all, and never over another's
        draft.unlink()
        return self.get(name)

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.pub"
