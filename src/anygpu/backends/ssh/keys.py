"""The SSH key of an attempt is computed from its name under the server's secret, and never stored."""

import hashlib
import hmac
from dataclasses import dataclass
from functools import lru_cache


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
