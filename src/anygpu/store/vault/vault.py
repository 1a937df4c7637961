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

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

FileStamp = tuple[int, int, int]


class DecryptionFailed(SecretMissing):
    """A stored value cannot be decrypted with this server's keys. Restore the key file, or store the value again."""

    code = "unopenable"


class Vault:
    """Encrypts and decrypts text.

    The key file has one key per line, the newest first. New values are encrypted with the first key; older
    keys still decrypt older values. The file is read again when it changes.
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
            raise DecryptionFailed("The value was encrypted for another name or project.")
        return str(text)

    def add_key(self) -> None:
        """Add a new key at the top of the key file.

        If two processes add keys at the same time, both keys are kept.
        """
        from cryptography.fernet import Fernet

        _read_or_create_keys(self._key_file, Fernet.generate_key())
        with _directory_lock(self._key_file.parent):
            keys = [Fernet.generate_key(), *self._key_file.read_bytes().split()]
            write_atomic(self._key_file, _key_lines(keys))

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

        if self._keys is None or self._key_file_stamp != _file_stamp(self._key_file):
            lines = _read_or_create_keys(self._key_file, Fernet.generate_key())
            self._key_file_stamp = _file_stamp(self._key_file)
            self._keys = MultiFernet([_parse_key(line, self._key_file) for line in lines])
        return self._keys


def _parse_key(line: bytes, path: Path) -> "Fernet":
    from cryptography.fernet import Fernet

    try:
        return Fernet(line)
    except ValueError as error:
        raise DecryptionFailed(
            f"A line of the key file {path} is not a valid key.",
            hint="Correct the line, or restore the file from a backup.",
        ) from error


def _file_stamp(path: Path) -> FileStamp | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if status.st_mode & 0o077:
        raise DecryptionFailed(
            f"Other users can read the key file {path}.",
            hint=f"Run `chmod 600 {path}`, and rotate the key if somebody may have read it.",
        )
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read_or_create_keys(path: Path, new_key: bytes) -> Sequence[bytes]:
    """Return the keys in the key file, which is created at first use.

    If two processes create the file at the same time, both use the key of the process that was first.
    """
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes().split()
    with contextlib.suppress(FileExistsError):
        write_atomic(path, _key_lines([new_key]), overwrite=False)
    return path.read_bytes().split()


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


def _key_lines(keys: Sequence[bytes]) -> bytes:
    return b"\n".join(keys) + b"\n"
