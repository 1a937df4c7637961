"""Check that the server's keys are those that its database was used with.

The database has the fingerprint of each key. A key that was lost or replaced is found when the server starts,
before it signs a link or encrypts a secret with another key.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.properties import get_property, set_property, set_property_once
from anygpu.store.sql.engine.statements import fetch_one
from anygpu.store.vault.key_file import (
    ACCEPT,
    KeyUnusable,
    create_private_file,
    fingerprint,
    new_signing_key,
    new_vault_key,
    read_signing_key,
    read_vault_keys,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """One of the server's key files: how it is read and made, and what depends on it.

    `needed_sql` finds a row if the database was used with a key before fingerprints were stored.
    """

    name: str
    property: str
    make: Callable[[], bytes]
    read: Callable[[Path], Sequence[bytes]]
    needed_sql: str
    loss: str


SIGNING = KeyKind(
    name="signing key",
    property="signing_key_fingerprint",
    make=new_signing_key,
    read=lambda path: [read_signing_key(path)],
    needed_sql="SELECT 1 FROM tokens LIMIT 1",  # every server stores its first token when it starts
    loss="download links and running jobs of the old key stop working",
)
VAULT = KeyKind(
    name="key file of the vault",
    property="vault_key_fingerprint",
    make=new_vault_key,
    read=read_vault_keys,
    needed_sql=(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM secrets)"
        " OR EXISTS (SELECT 1 FROM profiles WHERE credentials IS NOT NULL)"
    ),
    loss="secrets and provider credentials must then be stored again",
)


async def open_keys(database: Database, kind: KeyKind, path: Path, *, accept_new: bool) -> Sequence[bytes]:
    """Return the keys in a file, the newest first. Create the file if this database never had a key.

    Raises KeyUnusable if the file is missing or damaged, or has another key than the database was used with.
    `accept_new`: use the key in the file, or a new one, in place of the key used before.
    """
    may_create = accept_new or not await _had_key(database, kind)
    keys = _read_or_create(kind, path, may_create=may_create)
    await _check_fingerprint(database, kind, path, [fingerprint(key) for key in keys], accept_new=accept_new)
    return keys


def record_key(connection: Connection, kind: KeyKind, key: bytes) -> None:
    """Store the fingerprint of a new key, in the transaction that begins to use it."""
    set_property(connection, kind.property, fingerprint(key))


async def _had_key(database: Database, kind: KeyKind) -> bool:
    def work(connection: Connection) -> bool:
        recorded = get_property(connection, kind.property)
        return recorded is not None or fetch_one(connection, kind.needed_sql) is not None

    return await database.read(work)


def _read_or_create(kind: KeyKind, path: Path, *, may_create: bool) -> Sequence[bytes]:
    if not path.exists():
        if not may_create:
            raise KeyUnusable(
                f"The {kind.name} {path} does not exist, but this database was used with such a file.",
                hint=_advice(kind),
            )
        create_private_file(path, kind.make())
    return kind.read(path)


async def _check_fingerprint(
    database: Database, kind: KeyKind, path: Path, found: Sequence[str], *, accept_new: bool
) -> None:
    """Raise KeyUnusable unless the recorded key is in the file. The newest key becomes the recorded one."""

    def work(connection: Connection) -> str:
        recorded = set_property_once(connection, kind.property, found[0])
        if recorded in found or accept_new:
            set_property(connection, kind.property, found[0])
        return recorded

    recorded = await database.write(work)
    if recorded not in found and not accept_new:
        raise KeyUnusable(
            f"The {kind.name} {path} contains another key (fingerprint {found[0]}) than the one that this "
            f"database was used with ({recorded}).",
            hint=_advice(kind),
        )


def _advice(kind: KeyKind) -> str:
    return f"Restore the file from a backup. To continue with a new key, run {ACCEPT}: {kind.loss}."
