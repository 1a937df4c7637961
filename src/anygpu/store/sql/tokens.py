"""API tokens.

Only the SHA-256 of a token is stored, so a person who reads the database cannot use the tokens.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.errors import NotFound
from anygpu.store.scope import Scope
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import Row, execute, fetch_all, fetch_one

USED_AT_RESOLUTION_MS = 60_000  # resolution of `used_at_ms`; a write per request would be too expensive
_COLUMNS = "id, organisation, project, person, role, label, created_at_ms, used_at_ms, expires_at_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its text: its scope, role, label and times."""

    id: str
    scope: Scope
    role: str
    label: str
    created_at_ms: int
    used_at_ms: int | None
    expires_at_ms: int | None


class Tokens:
    """Creates, looks up, lists and revokes tokens."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def make(
        self,
        scope: Scope,
        *,
        role: str,
        label: str = "",
        at_ms: int,
        expires_at_ms: int | None = None,
        token: str | None = None,
    ) -> tuple[str, Token]:
        """Create a token, or store the given `token`.

        Return the text of the token, of which only the hash is stored, and its scope and role.
        """
        text = token or "anygpu_" + secrets.token_urlsafe(32)
        digest = _digest(text)
        values = (
            digest[:12],
            digest,
            scope.organisation,
            scope.project,
            scope.person,
            role,
            label,
            at_ms,
            expires_at_ms,
        )

        def work(connection: Connection) -> Token:
            execute(connection, _INSERT, values)
            row = fetch_one(connection, f"SELECT {_COLUMNS} FROM tokens WHERE sha256 = ?", (digest,))  # noqa: S608
            return _from_row(row or ())

        return text, await self._database.write(work)

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        """Return the scope and role of a valid token. None if the token is unknown, revoked or expired."""
        digest = _digest(token)
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE sha256 = ?"  # noqa: S608
        row = await self._database.read(lambda connection: fetch_one(connection, sql, (digest,)))
        found = _from_row(row) if row else None
        if found is None or (found.expires_at_ms is not None and found.expires_at_ms <= at_ms):
            return None
        if found.used_at_ms is None or found.used_at_ms + USED_AT_RESOLUTION_MS <= at_ms:
            used = "UPDATE tokens SET used_at_ms = ? WHERE sha256 = ?"
            await self._database.write(lambda connection: execute(connection, used, (at_ms, digest)))
        return found

    async def list(self, scope: Scope) -> Sequence[Token]:
        sql = (
            f"SELECT {_COLUMNS} FROM tokens WHERE organisation = ? AND project = ?"  # noqa: S608
            " ORDER BY created_at_ms, id"
        )
        names = (scope.organisation, scope.project)
        return [_from_row(row) for row in await self._database.read(lambda c: fetch_all(c, sql, names))]

    async def revoke(self, scope: Scope, token_id: str) -> None:
        sql = "DELETE FROM tokens WHERE id = ? AND organisation = ? AND project = ?"
        values = (token_id, scope.organisation, scope.project)
        if not await self._database.write(lambda connection: execute(connection, sql, values)):
            raise NotFound(f"There is no token {token_id!r}.", hint="`anygpu token ls` lists the tokens.")

    async def delete_expired(self, *, at_ms: int) -> int:
        """Delete expired tokens and return their number."""
        sql = "DELETE FROM tokens WHERE expires_at_ms IS NOT NULL AND expires_at_ms <= ?"
        return await self._database.write(lambda connection: execute(connection, sql, (at_ms,)))


_INSERT = (
    "INSERT INTO tokens (id, sha256, organisation, project, person, role, label, created_at_ms, expires_at_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sha256) DO NOTHING"
)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _from_row(row: Row) -> Token:
    token_id, organisation, project, person, role, label, created, used, expires = row
    return Token(
        id=token_id,
        scope=Scope(organisation=organisation, project=project, person=person),
        role=role,
        label=label,
        created_at_ms=created,
        used_at_ms=used,
        expires_at_ms=expires,
    )
