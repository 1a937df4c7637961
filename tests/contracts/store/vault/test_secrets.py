import json
import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from anygpu.errors import InvalidSpec, NotFound, SecretMissing, TooLarge
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute, fetch_all
from anygpu.store.vault.key_file import create_private_file, new_vault_key
from anygpu.store.vault.secrets import SecretInfo, Secrets
from anygpu.testing.samples.jobs import LAB, LAB_OTHER_PROJECT, STRANGER


@pytest.fixture
def vault(database: Database, tmp_path: Path) -> Secrets:
    return Secrets(database, tmp_path / "secrets.key")


async def test_a_secret_is_read_back_and_replaced(vault: Secrets) -> None:
    await vault.put(LAB, "HF_TOKEN", "päss\nword", at_ms=1)
    assert await vault.get(LAB, "HF_TOKEN") == "päss\nword"
    await vault.put(LAB, "HF_TOKEN", "new", at_ms=2)
    assert await vault.get(LAB, "HF_TOKEN") == "new"
    assert await vault.list(LAB) == [SecretInfo(name="HF_TOKEN", person="ada", updated_at_ms=2)]


@pytest.mark.parametrize("scope", [STRANGER, LAB_OTHER_PROJECT])
async def test_another_project_cannot_read_it(vault: Secrets, scope: object) -> None:
    await vault.put(LAB, "K", "v", at_ms=1)
    with pytest.raises(SecretMissing):
        await vault.get(scope, "K")  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await vault.delete(scope, "K")  # type: ignore[arg-type]
    assert not await vault.list(scope)  # type: ignore[arg-type]


async def test_a_deleted_secret_is_gone(vault: Secrets) -> None:
    await vault.put(LAB, "K", "v", at_ms=1)
    await vault.delete(LAB, "K")
    with pytest.raises(SecretMissing):
        await vault.get(LAB, "K")
    with pytest.raises(NotFound):
        await vault.delete(LAB, "K")


async def test_neither_the_table_nor_other_users_see_the_value(
    vault: Secrets, database: Database, tmp_path: Path
) -> None:
    await vault.put(LAB, "K", "very-secret", at_ms=1)
    stored = await database.read(lambda connection: fetch_all(connection, "SELECT * FROM secrets"))
    assert "very-secret" not in repr(stored)
    assert stat.S_IMODE((tmp_path / "secrets.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob(".key-*")] == []


async def test_a_second_vault_with_the_same_key_file_decrypts_it(
    vault: Secrets, database: Database, tmp_path: Path
) -> None:
    await vault.put(LAB, "K", "v", at_ms=1)
    assert await Secrets(database, tmp_path / "secrets.key").get(LAB, "K") == "v"


async def test_after_a_new_key_old_values_can_still_be_decrypted(
    vault: Secrets, database: Database, tmp_path: Path
) -> None:
    await vault.put(LAB, "OLD", "v", at_ms=1)
    key_file = tmp_path / "secrets.key"
    key_file.write_bytes(Fernet.generate_key() + b"\n" + key_file.read_bytes())
    rotated = Secrets(database, key_file)
    await rotated.put(LAB, "NEW", "w", at_ms=2)
    assert [await rotated.get(LAB, name) for name in ("OLD", "NEW")] == ["v", "w"]


async def test_without_its_key_a_secret_is_missing_and_says_so(
    vault: Secrets, database: Database, tmp_path: Path
) -> None:
    await vault.put(LAB, "K", "v", at_ms=1)
    create_private_file(tmp_path / "other.key", new_vault_key())
    with pytest.raises(SecretMissing, match=r"other\.key"):
        await Secrets(database, tmp_path / "other.key").get(LAB, "K")


async def test_a_value_copied_to_another_project_cannot_be_decrypted(
    vault: Secrets, database: Database
) -> None:
    await vault.put(LAB, "K", json.dumps("v"), at_ms=1)
    await database.write(lambda connection: execute(connection, "UPDATE secrets SET organisation = 'other'"))
    with pytest.raises(SecretMissing, match="another"):
        await vault.get(STRANGER, "K")


@pytest.mark.parametrize("name", ["", "a b", "é", "-x", "x\n", "x" * 201, "a\0"])
async def test_a_wrong_name_is_refused(vault: Secrets, name: str) -> None:
    with pytest.raises(InvalidSpec):
        await vault.put(LAB, name, "v", at_ms=1)
    with pytest.raises(SecretMissing):
        await vault.get(LAB, name)


async def test_a_value_beyond_the_limit_is_too_large(vault: Secrets) -> None:
    with pytest.raises(TooLarge):
        await vault.put(LAB, "K", "x" * 70_000, at_ms=1)
