"""Key rotation: encrypt every stored value again with the newest key."""

from dataclasses import dataclass

from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_all
from anygpu.store.vault.identity import VAULT, record_key
from anygpu.store.vault.vault import DecryptionFailed, Vault

_ENCRYPTED_COLUMNS = (("secrets", "value"), ("profiles", "credentials"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationResult:
    """How many values are now encrypted with the newest key, and how many no key could decrypt."""

    reencrypted: int = 0
    failed: int = 0


async def rotate_keys(database: Database, vault: Vault, *, new_key: bool) -> RotationResult:
    """Encrypt all stored secrets and credentials again with the newest key.

    If `new_key` is true, a new key is added to the key file first; otherwise the first key in the file is
    used. If several servers share the database, add the key to the key file of each server before the
    rotation.
    """
    if new_key:
        vault.add_key()

    def work(connection: Connection) -> RotationResult:
        record_key(connection, VAULT, vault.newest_key())
        results = [
            _reencrypt_column(connection, vault, table, column) for table, column in _ENCRYPTED_COLUMNS
        ]
        return RotationResult(
            reencrypted=sum(each.reencrypted for each in results), failed=sum(each.failed for each in results)
        )

    return await database.write(work)


def _reencrypt_column(connection: Connection, vault: Vault, table: str, column: str) -> RotationResult:
    reencrypted = failed = 0
    # Encrypted values are unique, so a value identifies its row.
    for (encrypted,) in fetch_all(connection, f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):  # noqa: S608
        try:
            renewed = vault.reencrypt(bytes(encrypted))
        except DecryptionFailed:
            failed += 1
            continue
        sql = f"UPDATE {table} SET {column} = ? WHERE {column} = ?"  # noqa: S608
        reencrypted += execute(connection, sql, (renewed, bytes(encrypted)))
    return RotationResult(reencrypted=reencrypted, failed=failed)
