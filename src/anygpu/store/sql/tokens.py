"""API tokens.

Only the SHA-256 of a token is stored, so a person who reads the database cannot use the tokens.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from anygpu.errors import NotFound
from anygpu.store.scope import Scope
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import Row, execute, fetch_all, fetch_one, placeholders

USED_AT_RESOLUTION_MS = 60_000  # resolution of `used_at_ms`; a write per request would be too expensive
_COLUMNS = "id, organisation, project, person, role, label, created_at_ms, used_at_ms, expires_at_ms, parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its text: its scope, role, label and times.

    `parent`: the id of the token that a browser session or login link was made from.
    """

    id: str
    scope: Scope
    role: str
    label: str
    created_at_ms: int
    used_at_ms: int | None
    expires_at_ms: int | None
    parent: str | None = None


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
        parent: str | None = None,
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
            parent,
        )

        def work(connection: Connection) -> Token:
            execute(connection, _INSERT, values)
            row = fetch_one(connection, f"SELECT {_COLUMNS} FROM tokens WHERE sha256 = ?", (digest,))  # noqa: S608
            return _from_row(row or ())

        return text, await self._database.write(work)

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        """Return the scope and role of a valid token. None if the token is unknown, revoked or expired.

        A token that was made from another one is valid only as long as that one.
        """
        digest = _digest(token)
        row = await self._database.read(lambda connection: fetch_one(connection, _LOOK_UP, (digest,)))
        found = _valid_token(row, at_ms) if row else None
        if found is None:
            return None
        if found.used_at_ms is None or found.used_at_ms + USED_AT_RESOLUTION_MS <= at_ms:
            used = "UPDATE tokens SET used_at_ms = ? WHERE sha256 = ?"
            await self._database.write(lambda connection: execute(connection, used, (at_ms, digest)))
        return found

    async def get(self, token_id: str) -> Token:
        """Return a token of any scope by its id. Raise NotFound if it does not exist."""
        sql = f"SELECT {_COLUMNS} FROM tokens WHERE id = ?"  # noqa: S608
        values = (storable_text(token_id),)
        row = await self._database.read(lambda connection: fetch_one(connection, sql, values))
        if row is None:
            raise _no_token(token_id)
        return _from_row(row)

    async def valid_ids(self, ids: Sequence[str], *, at_ms: int) -> set[str]:
        """Return those of the tokens that are still valid."""
        sql = f"{_WITH_PARENT} WHERE t.id IN ({placeholders(ids)})"
        rows = await self._database.read(lambda connection: fetch_all(connection, sql, ids))
        return {token.id for row in rows if (token := _valid_token(row, at_ms)) is not None}

    async def list(self, scope: Scope) -> Sequence[Token]:
        sql = (
            f"SELECT {_COLUMNS} FROM tokens WHERE organisation = ? AND project = ?"  # noqa: S608
            " ORDER BY created_at_ms, id"
        )
        names = (scope.organisation, scope.project)
        return [_from_row(row) for row in await self._database.read(lambda c: fetch_all(c, sql, names))]

    async def revoke(self, scope: Scope, token_id: str) -> None:
        """Delete a token of the scope's project, and the sessions and links made from it."""
        sql = "DELETE FROM tokens WHERE id = ? AND organisation = ? AND project = ?"
        values = (token_id, scope.organisation, scope.project)

        def work(connection: Connection) -> None:
            if not execute(connection, sql, values):
                raise _no_token(token_id)
            execute(connection, "DELETE FROM tokens WHERE parent = ?", (token_id,))

        await self._database.write(work)

    async def delete_expired(self, *, at_ms: int) -> int:
        """Delete expired tokens and return their number. A session without its token cannot be used."""
        sql = "DELETE FROM tokens WHERE expires_at_ms IS NOT NULL AND expires_at_ms <= ?"
        return await self._database.write(lambda connection: execute(connection, sql, (at_ms,)))


_INSERT = (
    "INSERT INTO tokens"
    " (id, sha256, organisation, project, person, role, label, created_at_ms, expires_at_ms, parent)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (sha256) DO NOTHING"
)
_WITH_PARENT = (
    f"SELECT {', '.join(f't.{name}' for name in _COLUMNS.split(', '))}, p.id, p.expires_at_ms"  # noqa: S608
    " FROM tokens t LEFT JOIN tokens p ON p.id = t.parent"
)
_LOOK_UP = f"{_WITH_PARENT} WHERE t.sha256 = ?"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _no_token(token_id: str) -> NotFound:
    return NotFound(
        f"There is no token with the id {token_id[:100]!r}.", hint="`anygpu token ls` lists the tokens."
    )


def _valid_token(row: Row, at_ms: int) -> Token | None:
    """Return the token of a row; None if it, or the token it was made from, has ended. The earlier expiry counts."""
    *own, parent_id, parent_expires = row
    token = _from_row(tuple(own))
    if token.parent is not None and parent_id is None:
        return None
    expiries = [each for each in (token.expires_at_ms, parent_expires) if each is not None]
    expires = min(expiries, default=None)
    return None if expires is not None and expires <= at_ms else replace(token, expires_at_ms=expires)


def _from_row(row: Row) -> Token:
    token_id, organisation, project, person, role, label, created, used, expires, parent = row
    return Token(
        id=token_id,
        scope=Scope(organisation=organisation, project=project, person=person),
        role=role,
        label=label,
        created_at_ms=created,
        used_at_ms=used,
        expires_at_ms=expires,
        parent=parent,
    )
