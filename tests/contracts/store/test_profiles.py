"""Profiles on every database: credentials sealed, one name for one backend, old databases brought along."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import Connection

from anygpu.errors import Conflict, NotFound
from anygpu.store.sql.database import Database
from anygpu.store.sql.schema import SCHEMA_VERSION, current_version, upgrade
from anygpu.store.sql.sqlite import SqliteDatabase
from anygpu.store.sql.statements import execute, fetch_all
from anygpu.store.vault.profiles import Profiles
from anygpu.store.vault.rotation import RotationResult, rotate_keys
from anygpu.store.vault.secrets import Secrets
from anygpu.store.vault.vault import DecryptionFailed, Vault
from anygpu.testing.samples.jobs import LAB, STRANGER

CREDENTIALS = {"api_key": "very-secret", "other": "also-secret"}


@pytest.fixture
def profiles(database: Database, tmp_path: Path) -> Profiles:
    return Profiles(database, tmp_path / "secrets.key")


async def put(profiles: Profiles, name: str = "cloud", **changed: object) -> None:
    given = {
        "kind": "lambda",
        "options": {"regions": ["eu"], "max_machines": 2},
        "credentials": CREDENTIALS,
        "at_ms": 5,
    }
    await profiles.put(LAB, name, **{**given, **changed})  # type: ignore[arg-type]


async def test_a_profile_comes_back_as_it_was_put(profiles: Profiles) -> None:
    await put(profiles)
    await put(profiles, "ambient", credentials={})
    ambient, cloud = await profiles.all()
    assert (cloud.name, cloud.kind, cloud.organisation) == ("cloud", "lambda", LAB.organisation)
    assert cloud.options == {"regions": ["eu"], "max_machines": 2}
    assert cloud.credential_names == ("api_key", "other")
    assert profiles.credentials(cloud) == CREDENTIALS
    assert profiles.credentials(ambient) == {}
    assert cloud == await profiles.get(LAB, "cloud")


async def test_no_credential_stands_in_the_table_or_in_a_profile_that_is_printed(
    profiles: Profiles, database: Database
) -> None:
    await put(profiles)
    stored = await database.read(lambda connection: fetch_all(connection, "SELECT * FROM profiles"))
    assert "secret" not in repr(stored)
    assert "sealed" not in repr(await profiles.get(LAB, "cloud"))


async def test_a_name_is_of_one_backend_on_the_server(profiles: Profiles) -> None:
    await put(profiles)
    with pytest.raises(Conflict, match="--change"):
        await put(profiles)
    with pytest.raises(Conflict, match="another name"):
        await profiles.put(STRANGER, "cloud", kind="ec2", options={}, credentials={}, at_ms=1, replace=True)
    await put(profiles, credentials={"api_key": "new"}, replace=True)
    assert profiles.credentials(await profiles.get(LAB, "cloud")) == {"api_key": "new"}


async def test_of_two_servers_that_add_one_name_at_once_one_is_told(
    servers: list[Database], tmp_path: Path
) -> None:
    both = [Profiles(each, tmp_path / "secrets.key") for each in servers]
    told = await asyncio.gather(*(put(each, "n") for each in both * 8), return_exceptions=True)
    assert [type(each) for each in told if each is not None] == [Conflict] * 15
    await asyncio.gather(*(put(each, "n", replace=True) for each in both * 4))
    (found,) = await both[0].all()
    assert found.updated_at_ms == 5 + 8


async def test_another_organisation_neither_sees_nor_removes_it(profiles: Profiles) -> None:
    await put(profiles)
    with pytest.raises(NotFound):
        await profiles.get(STRANGER, "cloud")
    with pytest.raises(NotFound):
        await profiles.delete(STRANGER, "cloud")
    await profiles.delete(LAB, "cloud")
    assert not await profiles.all()
    with pytest.raises(NotFound):
        await profiles.delete(LAB, "cloud")


async def test_credentials_of_a_row_given_to_another_organisation_do_not_open(profiles: Profiles) -> None:
    await put(profiles)
    stolen = replace(await profiles.get(LAB, "cloud"), organisation="other")
    with pytest.raises(DecryptionFailed, match="another"):
        profiles.credentials(stolen)


async def test_a_new_key_on_top_seals_what_is_written_and_the_old_still_opens(
    profiles: Profiles, database: Database, tmp_path: Path
) -> None:
    secrets, key_file = Secrets(database, tmp_path / "secrets.key"), tmp_path / "secrets.key"
    await put(profiles, "old")
    await secrets.put(LAB, "OLD", "v", at_ms=1)
    old_key = key_file.read_bytes()
    key_file.write_bytes(Fernet.generate_key() + b"\n" + old_key)
    await put(profiles, "new")
    await secrets.put(LAB, "NEW", "w", at_ms=2)
    old, new = await profiles.get(LAB, "old"), await profiles.get(LAB, "new")
    assert profiles.credentials(old) == profiles.credentials(new) == CREDENTIALS
    assert [await secrets.get(LAB, name) for name in ("OLD", "NEW")] == ["v", "w"]
    key_file.write_bytes(old_key)  # and without the new one, what it sealed is closed
    assert profiles.credentials(old) == CREDENTIALS
    with pytest.raises(DecryptionFailed, match="backend add new --change"):
        profiles.credentials(new)


async def test_after_a_rotation_the_older_keys_are_needed_no_more(
    profiles: Profiles, database: Database, tmp_path: Path
) -> None:
    secrets, key_file = Secrets(database, tmp_path / "secrets.key"), tmp_path / "secrets.key"
    await put(profiles)
    await put(profiles, "ambient", credentials={})
    await secrets.put(LAB, "K", "v", at_ms=1)
    before = await profiles.get(LAB, "cloud")
    assert await rotate_keys(database, Vault(key_file), new_key=True) == RotationResult(reencrypted=2)
    newest, oldest = key_file.read_bytes().split()
    key_file.write_bytes(newest)
    after = await profiles.get(LAB, "cloud")
    assert after == before  # nobody need open the backend anew
    assert profiles.credentials(after) == CREDENTIALS
    assert await secrets.get(LAB, "K") == "v"
    key_file.write_bytes(Fernet.generate_key())
    assert await rotate_keys(database, Vault(key_file), new_key=False) == RotationResult(failed=2)
    key_file.write_bytes(oldest + b"\n" + newest)
    assert await rotate_keys(database, Vault(key_file), new_key=False) == RotationResult(reencrypted=2)


def test_keys_that_are_added_at_once_are_all_kept(tmp_path: Path) -> None:
    vaults = [Vault(tmp_path / "k") for _ in range(8)]
    sealed = vaults[0].encrypt(("me",), "text")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Vault.add_key, vaults))
    assert len((tmp_path / "k").read_bytes().split()) == 9
    assert vaults[3].decrypt(("me",), sealed) == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


async def test_every_change_has_a_later_time(profiles: Profiles) -> None:
    await put(profiles)
    first = await profiles.get(LAB, "cloud")
    await put(profiles, replace=True)
    assert (await profiles.get(LAB, "cloud")).updated_at_ms > first.updated_at_ms


def test_a_key_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    vault, key_file = Vault(tmp_path / "k"), tmp_path / "k"
    sealed = vault.encrypt(("me",), "text")
    key_file.chmod(0o644)
    with pytest.raises(DecryptionFailed, match="chmod 600"):
        vault.decrypt(("me",), sealed)
    key_file.chmod(0o600)
    assert vault.decrypt(("me",), vault.reencrypt(sealed)) == "text"
    key_file.write_text("not a key\n")
    with pytest.raises(DecryptionFailed, match="is not a key"):
        vault.decrypt(("me",), sealed)


def as_it_was_before_profiles(connection: Connection) -> None:
    execute(connection, "DROP TABLE slot_usages")
    execute(connection, "DROP TABLE outcomes")
    execute(connection, "DROP TABLE profiles")
    execute(connection, "UPDATE alembic_version SET version_num = '0001'")


def brought_along(connection: Connection) -> None:
    assert current_version(connection) == "0001"
    upgrade(connection)


async def test_a_database_of_the_version_before_is_brought_along(
    profiles: Profiles, database: Database, tmp_path: Path
) -> None:
    secrets = Secrets(database, tmp_path / "secrets.key")
    await secrets.put(LAB, "KEPT", "v", at_ms=1)
    await database.write(as_it_was_before_profiles)
    await database.write(brought_along)
    assert await database.read(current_version) == SCHEMA_VERSION
    await put(profiles)
    assert await secrets.get(LAB, "KEPT") == "v"
    assert [each.name for each in await profiles.all()] == ["cloud"]


async def test_opening_an_old_file_is_enough(tmp_path: Path) -> None:
    old = await SqliteDatabase.open(tmp_path / "anygpu.db")
    await old.write(as_it_was_before_profiles)
    await old.close()
    opened = await SqliteDatabase.open(tmp_path / "anygpu.db")
    await put(Profiles(opened, tmp_path / "secrets.key"))
    await opened.close()
