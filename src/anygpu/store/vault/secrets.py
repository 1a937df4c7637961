"""Secrets of a project, encrypted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from anygpu.errors import InvalidSpec, NotFound, Problem, SecretMissing, TooLarge
from anygpu.store.scope import Scope
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_all, fetch_one
from anygpu.store.vault.vault import DecryptionFailed, Vault

MAX_VALUE = 64 * 1024  # characters
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretInfo:
    """A secret without its value."""

    name: str
    person: str
    updated_at_ms: int


class Secrets:
    """Stores the secrets of projects. The scope of a call names the project."""

    def __init__(self, database: Database, key_file: Path) -> None:
        self._database = database
        self._vault = Vault(key_file)

    async def put(self, scope: Scope, name: str, value: str, *, at_ms: int) -> SecretInfo:
        _validate(name, value)
        encrypted = self._vault.encrypt(_owner_of(scope, name), value)
        sql = (
            "INSERT INTO secrets (organisation, project, name, value, person, updated_at_ms)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (organisation, project, name) DO UPDATE SET"
            " value = excluded.value, person = excluded.person, updated_at_ms = excluded.updated_at_ms"
        )
        values = (scope.organisation, scope.project, name, encrypted, scope.person, at_ms)
        await self._database.write(lambda connection: execute(connection, sql, values))
        return SecretInfo(name=name, person=scope.person, updated_at_ms=at_ms)

    async def list(self, scope: Scope) -> Sequence[SecretInfo]:
        sql = "SELECT name, person, updated_at_ms FROM secrets WHERE organisation = ? AND project = ?"
        names = (scope.organisation, scope.project)
        rows = await self._database.read(lambda connection: fetch_all(connection, sql, names))
        listed = (SecretInfo(name=name, person=who, updated_at_ms=when) for name, who, when in rows)
        return sorted(listed, key=lambda info: info.name)

    async def get(self, scope: Scope, name: str) -> str:
        """Return the decrypted value of a secret.

        Raises SecretMissing if the secret does not exist or cannot be decrypted.
        """

        def work(connection: Connection) -> bytes | None:
            sql = "SELECT value FROM secrets WHERE organisation = ? AND project = ? AND name = ?"
            row = fetch_one(connection, sql, (scope.organisation, scope.project, storable_text(name)))
            return bytes(row[0]) if row else None

        encrypted = await self._database.read(work)
        if encrypted is None:
            raise SecretMissing(
                f"There is no secret with the name {name!r} in this project.",
                hint=f"Add it with `anygpu secret set {name}`.",
            )
        return self._decrypt(scope, name, encrypted)

    async def delete(self, scope: Scope, name: str) -> None:
        sql = "DELETE FROM secrets WHERE organisation = ? AND project = ? AND name = ?"
        values = (scope.organisation, scope.project, storable_text(name))
        if not await self._database.write(lambda connection: execute(connection, sql, values)):
            raise NotFound(
                f"There is no secret with the name {name!r} in this project.",
                hint="`anygpu secret ls` lists the secrets.",
            )

    def _decrypt(self, scope: Scope, name: str, encrypted: bytes) -> str:
        try:
            return self._vault.decrypt(_owner_of(scope, name), encrypted)
        except DecryptionFailed as error:
            raise SecretMissing(
                f"The secret {name!r} cannot be decrypted. {error}",
                hint=f"Restore the key file, or set the secret again with `anygpu secret set {name}`.",
            ) from error


def _owner_of(scope: Scope, name: str) -> tuple[str, str, str]:
    return scope.organisation, scope.project, name


def _validate(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        message = "is not a valid secret name; use up to 200 letters, digits, '_', '.', '/' and '-'"
        raise InvalidSpec([Problem("name", name[:200], message)])
    if len(value) > MAX_VALUE:
        raise TooLarge(
            f"The value of the secret {name} has {len(value)} characters; the limit is {MAX_VALUE}. Store a "
            "shorter value."
        )
