"""Backend profiles: the backends an organisation has configured, with encrypted credentials."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from anygpu.errors import Conflict, NotFound
from anygpu.store.scope import Scope
from anygpu.store.search import storable_text
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import Row, execute, fetch_all, fetch_one, for_update
from anygpu.store.vault.vault import DecryptionFailed, Vault

Json = dict[str, Any]
_COLUMNS = "name, organisation, kind, options, credentials, credential_names, person, updated_at_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A configured backend with encrypted credentials.

    If its profile changes, the backend is opened again.
    """

    name: str
    organisation: str
    kind: str
    options: Json
    credential_names: tuple[str, ...] = ()
    person: str = ""
    updated_at_ms: int = 0
    encrypted: bytes | None = field(
        default=None, repr=False, compare=False
    )  # not compared, because key rotation changes the value


class Profiles:
    """Stores backend profiles.

    The name of a profile is unique on the server, because attempts refer to it.
    """

    def __init__(self, database: Database, key_file: Path) -> None:
        self._database = database
        self._vault = Vault(key_file)

    async def all(self) -> Sequence[Profile]:
        """Return the profiles of all organisations, to open their backends."""
        sql = f"SELECT {_COLUMNS} FROM profiles ORDER BY name"  # noqa: S608 - constants
        return [
            _from_row(row) for row in await self._database.read(lambda connection: fetch_all(connection, sql))
        ]

    async def get(self, scope: Scope, name: str) -> Profile:
        profile = await self._database.read(lambda connection: _select(connection, name))
        if profile is None or profile.organisation != scope.organisation:
            raise NotFound(f"There is no backend {name!r}.", hint="`anygpu backend ls` lists the backends.")
        return profile

    async def put(
        self,
        scope: Scope,
        name: str,
        *,
        kind: str,
        options: Mapping[str, Any],
        credentials: Mapping[str, str],
        at_ms: int,
        replace: bool = False,
    ) -> Profile:
        profile = Profile(
            name=name,
            organisation=scope.organisation,
            kind=kind,
            options=dict(options),
            credential_names=tuple(sorted(credentials)),
            person=scope.person,
            updated_at_ms=at_ms,
            encrypted=self._encrypt(scope, name, credentials),
        )
        return await self._database.write(lambda connection: _put(connection, profile, replace=replace))

    async def delete(self, scope: Scope, name: str) -> None:
        sql = "DELETE FROM profiles WHERE organisation = ? AND name = ?"
        values = (scope.organisation, storable_text(name))
        if not await self._database.write(lambda connection: execute(connection, sql, values)):
            raise NotFound(f"There is no backend {name!r}.", hint="`anygpu backend ls` lists the backends.")

    def credentials(self, profile: Profile) -> dict[str, str]:
        """Return the decrypted credentials of a profile. Pass them only to the backend that uses them."""
        if profile.encrypted is None:
            return {}
        try:
            credentials: dict[str, str] = json.loads(
                self._vault.decrypt(_owner_of(profile), profile.encrypted)
            )
        except DecryptionFailed as error:
            again = f"`anygpu backend add {profile.name} --change --credential …`"
            hint = f"Restore the key file, or store the credentials again: {again}."
            raise DecryptionFailed(
                f"The credentials of backend {profile.name!r} cannot be decrypted. {error}", hint=hint
            ) from error
        return credentials

    def _encrypt(self, scope: Scope, name: str, credentials: Mapping[str, str]) -> bytes | None:
        if not credentials:
            return None
        return self._vault.encrypt(_owner(scope.organisation, name), json.dumps(dict(credentials)))


def _owner(organisation: str, name: str) -> tuple[str, ...]:
    # Four parts, where a secret has three: neither can be decrypted as the other.
    return "profile", organisation, name, "credentials"


def _owner_of(profile: Profile) -> tuple[str, ...]:
    return _owner(profile.organisation, profile.name)


def _put(connection: Connection, profile: Profile, *, replace: bool) -> Profile:
    """Insert or replace a profile.

    Every change increases `updated_at_ms`, so that other servers that share the database notice the change.
    """
    current = _select(connection, profile.name, for_update(connection))
    if current is None:
        _insert(connection, profile)
        return profile
    if not replace or current.organisation != profile.organisation:
        raise _name_taken(profile.name, mine=current.organisation == profile.organisation)
    later = changed(profile, updated_at_ms=max(profile.updated_at_ms, current.updated_at_ms + 1))
    _update(connection, later)
    return later


def _insert(connection: Connection, profile: Profile) -> None:
    names = json.dumps(profile.credential_names)
    values = (profile.name, profile.organisation, profile.kind, json.dumps(profile.options))
    more = (profile.encrypted, names, profile.person, profile.updated_at_ms)
    sql = f"INSERT INTO profiles ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
    if not execute(connection, sql, (*values, *more)):
        raise _name_taken(profile.name, mine=False)  # by a concurrent insert


def _update(connection: Connection, profile: Profile) -> None:
    sql = (
        "UPDATE profiles SET kind = ?, options = ?, credentials = ?, credential_names = ?, person = ?,"
        " updated_at_ms = ? WHERE name = ?"
    )
    what = (
        profile.kind,
        json.dumps(profile.options),
        profile.encrypted,
        json.dumps(profile.credential_names),
    )
    execute(connection, sql, (*what, profile.person, profile.updated_at_ms, profile.name))


def _name_taken(name: str, *, mine: bool) -> Conflict:
    hint = "Use `anygpu backend add --change` to change it." if mine else "Choose another name."
    return Conflict(f"This server already has a backend named {name!r}.", hint=hint)


def _select(connection: Connection, name: str, lock: str = "") -> Profile | None:
    sql = f"SELECT {_COLUMNS} FROM profiles WHERE name = ?{lock}"  # noqa: S608 - constants
    row = fetch_one(connection, sql, (storable_text(name),))
    return None if row is None else _from_row(row)


def _from_row(row: Row) -> Profile:
    name, organisation, kind, options, encrypted, names, person, updated_at_ms = row
    return Profile(
        name=name,
        organisation=organisation,
        kind=kind,
        options=json.loads(options),
        credential_names=tuple(json.loads(names)),
        person=person,
        updated_at_ms=updated_at_ms,
        encrypted=None if encrypted is None else bytes(encrypted),
    )
