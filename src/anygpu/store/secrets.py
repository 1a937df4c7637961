"""The vault: secrets of a project, encrypted with keys that lie in a file of their own beside the database."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from anygpu.errors import InvalidSpec, NotFound, Problem, SecretMissing, TooLarge
from anygpu.store.scope import Scope
from anygpu.store.search import storable
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import row, rows, run

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

MAX_VALUE = 64 * 1024  # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInfo:
    """A secret without its value."""

    name: str
    person: str
    updated_at_ms: int


class Secrets:
    """Puts, lists, gets and deletes secrets of a scope's project.

    The key file holds one key a line, the newest first: add a line on top to change the key, and values stored
    with an older one can still be read.
    """

    def __init__(self, database: Database, key_file: Path) -> None:
        self._database = database
        self._key_file = key_file
        self._keys: MultiFernet | None = None

    async def put(self, scope: Scope, name: str, value: str, *, at_ms: int) -> SecretInfo:
        _check(name, value)
        sealed = self._cipher().encrypt(_bound(scope, name, value))
        sql = (
            "INSERT INTO secrets (organisation, project, name, value, person, updated_at_ms)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (organisation, project, name) DO UPDATE SET"
            " value = excluded.value, person = excluded.person, updated_at_ms = excluded.updated_at_ms"
        )
        values = (scope.organisation, scope.project, name, sealed, scope.person, at_ms)
        await self._database.write(lambda connection: run(connection, sql, values))
        return SecretInfo(name=name, person=scope.person, updated_at_ms=at_ms)

    async def list(self, scope: Scope) -> Sequence[SecretInfo]:
        sql = "SELECT name, person, updated_at_ms FROM secrets WHERE organisation = ? AND project = ?"
        names = (scope.organisation, scope.project)
        found = await self._database.read(lambda connection: rows(connection, sql, names))
        listed = (SecretInfo(name=name, person=who, updated_at_ms=when) for name, who, when in found)
        return sorted(listed, key=lambda info: info.name)

    async def get(self, scope: Scope, name: str) -> str:
        """SecretMissing when there is none, or none that the keys can open."""

        def work(connection: Connection) -> bytes | None:
            sql = "SELECT value FROM secrets WHERE organisation = ? AND project = ? AND name = ?"
            found = row(connection, sql, (scope.organisation, scope.project, storable(name)))
            return bytes(found[0]) if found else None

        sealed = await self._database.read(work)
        if sealed is None:
            raise SecretMissing(
                f"there is no secret {name!r}", hint=f"add it with `anygpu secret set {name}`."
            )
        return self._opened(scope, name, sealed)

    async def delete(self, scope: Scope, name: str) -> None:
        sql = "DELETE FROM secrets WHERE organisation = ? AND project = ? AND name = ?"
        values = (scope.organisation, scope.project, storable(name))
        if not await self._database.write(lambda connection: run(connection, sql, values)):
            raise NotFound(f"there is no secret {name!r}")

    def _opened(self, scope: Scope, name: str, sealed: bytes) -> str:
        from cryptography.fernet import InvalidToken

        try:
            *whose, value = json.loads(self._cipher().decrypt(sealed))
        except InvalidToken as error:
            raise SecretMissing(
                f"the secret {name!r} was stored with a key that is not in {self._key_file.name}",
                hint=f"restore the key file, or set the secret again with `anygpu secret set {name}`.",
            ) from error
        if whose != [scope.organisation, scope.project, name]:
            raise SecretMissing(f"the stored secret {name!r} belongs to another name or project")
        return str(value)

    def _cipher(self) -> "MultiFernet":
        if self._keys is None:
            from cryptography.fernet import Fernet, MultiFernet

            lines = _key_lines(self._key_file, Fernet.generate_key())
            self._keys = MultiFernet([Fernet(line) for line in lines])
        return self._keys


def _bound(scope: Scope, name: str, value: str) -> bytes:
    """The value together with whose it is: a row copied to another project or name does not open there."""
    return json.dumps([scope.organisation, scope.project, name, value]).encode()


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        said = "is not the name of a secret; use up to 200 letters, digits, '_', '.', '/' and '-'"
        raise InvalidSpec([Problem("name", name[:200], said)])
    if len(value) > MAX_VALUE:
        raise TooLarge(f"the secret {name} has {len(value)} characters; at most {MAX_VALUE} are stored")


def _key_lines(path: Path, fresh: bytes) -> Sequence[bytes]:
    """The keys, made at first use. Of two processes that make them at once, one wins and both use its key."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes().split()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(fresh + b"\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        Path(temporary).unlink()
    return path.read_bytes().split()
