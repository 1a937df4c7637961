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
from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import Row, execute, fetch_all, fetch_one, for_update
from anygpu.store.vault.vault import DecryptionFailed, Vault

Json = dict[str, Any]
_COLUMNS = "name, organisation, kind, options, credentials, credential_names, person, updated_at_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A configured backend, its credentials sealed. Of two that are equal one need not be opened anew."""

    name: str
    organisation: str
    kind: str
    options: Json
    credential_names: tuple[str, ...] = ()
    person: str = ""
    updated_at_ms: int = 0
    encrypted: bytes | None = field(default=None, repr=False, compare=False)  # a new key changes nothing else


class Profiles:
    """Puts, lists and deletes profiles. A name is of one profile on this server: attempts refer to it."""

    def __init__(self, database: Database, key_file: Path) -> None:
        self._database = database
        self._vault = Vault(key_file)

    async def all(self) -> Sequence[Profile]:
        """Of every organisation: for whoever opens them."""
        sql = f"SELECT {_COLUMNS} FROM profiles ORDER BY name"  # noqa: S608 - our own column names
        return [
            _from_row(each)
            for each in await self._database.read(lambda connection: fetch_all(connection, sql))
        ]

    async def get(self, scope: Scope, name: str) -> Profile:
        found = await self._database.read(lambda connection: _select(connection, name))
        if found is None or found.organisation != scope.organisation:
            raise NotFound(f"there is no backend {name!r}", hint="`anygpu backend ls` lists them.")
        return found

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
            raise NotFound(f"there is no backend {name!r}", hint="`anygpu backend ls` lists them.")

    def credentials(self, profile: Profile) -> dict[str, str]:
        """In the open, for the adapter alone."""
        if profile.encrypted is None:
            return {}
        try:
            opened: dict[str, str] = json.loads(self._vault.decrypt(_owner_of(profile), profile.encrypted))
        except DecryptionFailed as error:
            again = f"`anygpu backend add {profile.name} --change --credential …`"
            hint = f"Restore the key file, or give them again: {again}."
            raise DecryptionFailed(
                f"the credentials of backend {profile.name!r} cannot be opened: {error}", hint=hint
            ) from error
        return opened

    def _encrypt(self, scope: Scope, name: str, credentials: Mapping[str, str]) -> bytes | None:
        if not credentials:
            return None
        return self._vault.encrypt(_owner(scope.organisation, name), json.dumps(dict(credentials)))


def _owner(organisation: str, name: str) -> tuple[str, ...]:
    # Four parts, where a secret has three: neither opens as the other.
    return "profile", organisation, name, "credentials"


def _owner_of(profile: Profile) -> tuple[str, ...]:
    return _owner(profile.organisation, profile.name)


def _put(connection: Connection, profile: Profile, *, replace: bool) -> Profile:
    """As it is stored: its time goes up with every change, so that other servers see that there was one."""
    known = _select(connection, profile.name, for_update(connection))
    if known is None:
        _insert(connection, profile)
        return profile
    if not replace or known.organisation != profile.organisation:
        raise _name_taken(profile.name, mine=known.organisation == profile.organisation)
    later = changed(profile, updated_at_ms=max(profile.updated_at_ms, known.updated_at_ms + 1))
    _update(connection, later)
    return later


def _insert(connection: Connection, profile: Profile) -> None:
    names = json.dumps(profile.credential_names)
    values = (profile.name, profile.organisation, profile.kind, json.dumps(profile.options))
    more = (profile.encrypted, names, profile.person, profile.updated_at_ms)
    sql = f"INSERT INTO profiles ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"  # noqa: S608
    if not execute(connection, sql, (*values, *more)):
        raise _name_taken(profile.name, mine=False)  # by somebody else, this very moment


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
    hint = "`anygpu backend add --change` changes it." if mine else "Choose another name."
    return Conflict(f"there is a backend {name!r} on this server already", hint=hint)


def _select(connection: Connection, name: str, how: str = "") -> Profile | None:
    sql = f"SELECT {_COLUMNS} FROM profiles WHERE name = ?{how}"  # noqa: S608 - our own words
    found = fetch_one(connection, sql, (storable_text(name),))
    return None if found is None else _from_row(found)


def _from_row(found: Row) -> Profile:
    name, organisation, kind, options, encrypted, names, person, updated_at_ms = found
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
