"""Encrypt and decrypt text with keys from a key file next to the database."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.errors import SecretMissing
from anygpu.files import write_atomic
from anygpu.store.vault.key_file import new_vault_key, read_vault_keys

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

FileStamp = tuple[int, int, int, int]


class DecryptionFailed(SecretMissing):
    """A stored value cannot be decrypted with this server's keys. Restore the key file, or store the value again."""

    code = "unopenable"


class Vault:
    """Encrypts and decrypts text.

    The key file has one key per line, the newest first. New values are encrypted with the first key; older
    keys still decrypt older values. The file is read again when it changes, and is never created here: without
    it, every method raises KeyUnusable.
    """

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._keys: MultiFernet | None = None
        self._key_file_stamp: FileStamp | None = None

    def encrypt(self, owner: Sequence[str], text: str) -> bytes:
        """Encrypt the text together with `owner` (organisation, project, name).

        Decrypting needs the same owner.
        """
        return self._cipher().encrypt(json.dumps([*owner, text]).encode())

    def decrypt(self, owner: Sequence[str], encrypted: bytes) -> str:
        """Return the decrypted text. Raises DecryptionFailed if no key decrypts it or the owner differs."""
        from cryptography.fernet import InvalidToken

        try:
            *stored_owner, text = json.loads(self._cipher().decrypt(encrypted))
        except InvalidToken as error:
            raise self._unknown_key() from error
        if stored_owner != [*owner]:
            raise DecryptionFailed(
                "The stored value belongs to another name or project: it was copied in the database. Store the "
                "value again."
            )
        return str(text)

    def add_key(self) -> None:
        """Add a new key at the top of the key file.

        If two processes add keys at the same time, both keys are kept.
        """
        with _directory_lock(self._key_file.parent):
            lines = [new_vault_key(), *(key + b"\n" for key in read_vault_keys(self._key_file))]
            write_atomic(self._key_file, b"".join(lines))

    def newest_key(self) -> bytes:
        """Return the key that new values are encrypted with."""
        return read_vault_keys(self._key_file)[0]

    def reencrypt(self, encrypted: bytes) -> bytes:
        """Return the same value encrypted with the newest key."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher().rotate(encrypted)
        except InvalidToken as error:
            raise self._unknown_key() from error

    def _unknown_key(self) -> DecryptionFailed:
        return DecryptionFailed(f"The value was encrypted with a key that is not in {self._key_file.name}.")

    def _cipher(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet

        stamp = _file_stamp(self._key_file)
        if self._keys is None or self._key_file_stamp != stamp:
            self._keys = MultiFernet([Fernet(key) for key in read_vault_keys(self._key_file)])
            self._key_file_stamp = stamp
        return self._keys


def _file_stamp(path: Path) -> FileStamp | None:
    """Return values that change whenever the file or its mode changes; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


@contextlib.contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Lock the directory of the key file.

    The file itself cannot be locked, because every change replaces it.
    """
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
