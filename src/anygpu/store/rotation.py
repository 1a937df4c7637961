"""A change of the vault's key: everything that is sealed is sealed anew, so that older keys are needed no more."""

from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import rows, run
from anygpu.store.vault import Unopenable, Vault

_SEALED = (("secrets", "value"), ("profiles", "credentials"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """How many values the newest key seals now, and how many no key opens."""

    sealed: int = 0
    unopenable: int = 0


async def rotate(database: Database, vault: Vault, *, new_key: bool) -> Rotated:
    """Without `new_key`, the key on top of the file is taken: servers that share a database need it first."""
    if new_key:
        vault.new_key()

    def work(connection: Connection) -> Rotated:
        found = [_resealed(connection, vault, table, column) for table, column in _SEALED]
        return Rotated(
            sealed=sum(each.sealed for each in found), unopenable=sum(each.unopenable for each in found)
        )

    return await database.write(work)


def _resealed(connection: Connection, vault: Vault, table: str, column: str) -> Rotated:
    done = closed = 0
    # Our own names, and what is sealed is never twice the same: it finds its row by itself.
    for (sealed,) in rows(connection, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):  # noqa: S608
        try:
            fresh = vault.resealed(bytes(sealed))
        except Unopenable:
            closed += 1
            continue
        done += run(connection, f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (fresh, bytes(sealed)))  # noqa: S608
    return Rotated(sealed=done, unopenable=closed)
