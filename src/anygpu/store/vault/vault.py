"""Encrypt and decrypt text with keys from a key file next to the database."""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.errors import SecretMissing

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

FileStamp = tuple[int, int, int]


class DecryptionFailed(SecretMissing):
    """The stored value cannot be opened with the keys of this server. Restore the key file, or store it again."""

    code = "unopenable"


class Vault:
    """Seals and opens.

    The key file holds one key a line, the newest first: add a line on top to change the key. What is written from
    then on is sealed with it, and what an older one sealed can still be read. The file is read again when it changes.
    """

    def __init__(self, key_file: Path) -> None:
        self._key_file = key_file
        self._keys: MultiFernet | None = None
        self._key_file_stamp: FileStamp | None = None

    def encrypt(self, whose: Sequence[str], text: str) -> bytes:
        """The text together with whose it is: a row copied to another owner or name does not open there."""
        return self._cipher().encrypt(json.dumps([*whose, text]).encode())

    def decrypt(self, whose: Sequence[str], encrypted: bytes) -> str:
        from cryptography.fernet import InvalidToken

        try:
            *owner, text = json.loads(self._cipher().decrypt(encrypted))
        except InvalidToken as error:
            raise DecryptionFailed(
                f"it was stored with a key that is not in {self._key_file.name}"
            ) from error
        if owner != [*whose]:
            raise DecryptionFailed("it belongs to another name or project")
        return str(text)

    def add_key(self) -> None:
        """A new key on top of the file. Of two processes that add one at once, both are kept."""
        from cryptography.fernet import Fernet

        _read_or_create_keys(self._key_file, Fernet.generate_key())
        with _directory_lock(self._key_file.parent):
            known = self._key_file.read_bytes().split()
            _write_draft(self._key_file, [Fernet.generate_key(), *known]).replace(self._key_file)

    def reencrypt(self, encrypted: bytes) -> bytes:
        """The same value under the newest key."""
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher().rotate(encrypted)
        except InvalidToken as error:
            raise DecryptionFailed(
                f"it was stored with a key that is not in {self._key_file.name}"
            ) from error

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
            f"{path.name} has a line that is no key", hint="Correct or restore it."
        ) from error


def _file_stamp(path: Path) -> FileStamp | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if found.st_mode & 0o077:
        raise DecryptionFailed(
            f"others can read {path}", hint=f"`chmod 600 {path}`; change the key if it was seen."
        )
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read_or_create_keys(path: Path, fresh: bytes) -> Sequence[bytes]:
    """The keys, made at first use. Of two processes that make them at once, one wins and both use its key."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes().split()
    draft = _write_draft(path, [fresh])
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    return path.read_bytes().split()


@contextlib.contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """The lock is on the directory: the file itself is another one after each change."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_draft(path: Path, lines: Sequence[bytes]) -> Path:
    """A file beside it, whole, that nobody else can read."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return Path(draft)
