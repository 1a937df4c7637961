"""Key rotation: encrypt every stored value again with the newest key."""

from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.store.sql.database import Database
from anygpu.store.sql.statements import execute, fetch_all
from anygpu.store.vault.vault import DecryptionFailed, Vault

_ENCRYPTED_COLUMNS = (("secrets", "value"), ("profiles", "credentials"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationResult:
    """How many values the newest key seals now, and how many no key opens."""

    reencrypted: int = 0
    failed: int = 0


async def rotate_keys(database: Database, vault: Vault, *, new_key: bool) -> RotationResult:
    """Without `new_key`, the key on top of the file is taken: servers that share a database need it first."""
    if new_key:
        vault.add_key()

    def work(connection: Connection) -> RotationResult:
        found = [_reencrypt_column(connection, vault, table, column) for table, column in _ENCRYPTED_COLUMNS]
        return RotationResult(
            reencrypted=sum(each.reencrypted for each in found), failed=sum(each.failed for each in found)
        )

    return await database.write(work)


def _reencrypt_column(connection: Connection, vault: Vault, table: str, column: str) -> RotationResult:
    done = closed = 0
    # Our own names, and what is sealed is never twice the same: it finds its row by itself.
    for (encrypted,) in fetch_all(connection, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):  # noqa: S608
        try:
            fresh = vault.reencrypt(bytes(encrypted))
        except DecryptionFailed:
            closed += 1
            continue
        sql = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608
        done += execute(connection, sql, (fresh, bytes(encrypted)))
    return RotationResult(reencrypted=done, failed=closed)
