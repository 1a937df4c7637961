"""Read and create the files that hold the server's secrets: the signing key, the vault's keys and the first token."""

import base64
import binascii
import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from anygpu.errors import AnygpuError
from anygpu.files import write_atomic

SIGNING_KEY_BYTES = 32
VAULT_KEY_BYTES = 32


class KeyUnusable(AnygpuError):
    """A key file of the server is missing, damaged or open to other users. The operator must restore the file."""

    code = "key_unusable"


def read_private_file(path: Path) -> bytes:
    """Return the content of a file. Raise KeyUnusable unless the file belongs to this user alone."""
    try:
        _require_private(path, path.stat())
        return path.read_bytes()
    except FileNotFoundError:
        raise KeyUnusable(
            f"The server's key file {path} does not exist.", hint="Restore it from a backup."
        ) from None
    except OSError as error:
        raise KeyUnusable(
            f"The server's key file {path} cannot be read: {error.strerror}.",
            hint="Correct its permissions: the server's user must be able to read it.",
        ) from None


def create_private_file(path: Path, content: bytes) -> None:
    """Create a file with mode 0600. If it exists, it stays as it is: another process was first."""
    with suppress(FileExistsError):
        write_atomic(path, content, overwrite=False)


def new_signing_key() -> bytes:
    return secrets.token_bytes(SIGNING_KEY_BYTES)


def read_signing_key(path: Path) -> bytes:
    key = read_private_file(path)
    if len(key) < SIGNING_KEY_BYTES:
        raise KeyUnusable(
            f"The signing key in {path} has {len(key)} bytes; at least {SIGNING_KEY_BYTES} are required.",
            hint=RESTORE_OR_REPLACE,
        )
    return key


def new_vault_key() -> bytes:
    return base64.urlsafe_b64encode(secrets.token_bytes(VAULT_KEY_BYTES)) + b"\n"


def read_vault_keys(path: Path) -> Sequence[bytes]:
    """Return the keys in the vault's key file, the newest first. There is at least one."""
    keys = read_private_file(path).split()
    if not keys:
        raise KeyUnusable(f"The key file {path} is empty.", hint=RESTORE_OR_REPLACE)
    for number, key in enumerate(keys, start=1):
        if not _is_vault_key(key):
            raise KeyUnusable(
                f"Line {number} of the key file {path} is not a valid key.", hint=RESTORE_OR_REPLACE
            )
    return keys


def fingerprint(key: bytes) -> str:
    """Return a text that identifies a key and does not reveal it."""
    return sha256(b"anygpu key\0" + key).hexdigest()[:32]


ACCEPT = "`anygpu up --accept-new-keys`"
RESTORE_OR_REPLACE = f"Restore it from a backup. If there is none, delete the file and run {ACCEPT}."


def _is_vault_key(key: bytes) -> bool:
    try:
        return len(base64.urlsafe_b64decode(key)) == VAULT_KEY_BYTES
    except binascii.Error:
        return False


def _require_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyUnusable(
            f"The key file {path} is not a regular file.", hint="Replace it by a regular file with the key."
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise KeyUnusable(
            f"The file {path} belongs to the user with id {status.st_uid}, not to the server's user.",
            hint=f"Run `chown {os.geteuid()} {path}`. Replace the secret if somebody may have read it.",
        )
    if status.st_mode & 0o077:
        raise KeyUnusable(
            f"Other users can read or change the file {path} (mode {stat.S_IMODE(status.st_mode):04o}).",
            hint=f"Run `chmod 600 {path}`. Replace the secret if somebody may have read it.",
        )
