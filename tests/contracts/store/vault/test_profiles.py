"""Profiles on every database: credentials sealed, one name for one backend, old databases brought along."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.contracts.store.downgrade import downgrade
from tests.contracts.store.vault.example_profiles import CREDENTIALS, put

from anygpu.errors import Conflict, NotFound
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import SCHEMA_VERSION, current_version, upgrade
from anygpu.store.sql.engine.sqlite import SqliteDatabase
from anygpu.store.sql.engine.statements import fetch_all
from anygpu.store.vault.profiles import Profiles
from anygpu.store.vault.secrets import Secrets
from anygpu.store.vault.vault import DecryptionFailed
from anygpu.testing.samples.jobs import LAB, STRANGER


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


async def test_credentials_are_neither_in_the_table_nor_in_a_printed_profile(
    profiles: Profiles, database: Database
) -> None:
    await put(profiles)
    stored = await database.read(lambda connection: fetch_all(connection, "SELECT * FROM profiles"))
    assert "secret" not in repr(stored)
    assert "encrypted" not in repr(await profiles.get(LAB, "cloud"))


async def test_a_profile_name_is_unique_on_the_server(profiles: Profiles) -> None:
    await put(profiles)
    with pytest.raises(Conflict, match="--change"):
        await put(profiles)
    with pytest.raises(Conflict, match="another name"):
        await profiles.put(STRANGER, "cloud", kind="ec2", options={}, credentials={}, at_ms=1, replace=True)
    await put(profiles, credentials={"api_key": "new"}, replace=True)
    assert profiles.credentials(await profiles.get(LAB, "cloud")) == {"api_key": "new"}


async def test_of_two_servers_that_add_the_same_name_one_gets_a_conflict(
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


async def test_credentials_moved_to_another_organisation_cannot_be_decrypted(profiles: Profiles) -> None:
    await put(profiles)
    stolen = replace(await profiles.get(LAB, "cloud"), organisation="other")
    with pytest.raises(DecryptionFailed, match="another"):
        profiles.credentials(stolen)


async def test_every_change_has_a_later_time(profiles: Profiles) -> None:
    await put(profiles)
    first = await profiles.get(LAB, "cloud")
    await put(profiles, replace=True)
    assert (await profiles.get(LAB, "cloud")).updated_at_ms > first.updated_at_ms


def migrate(connection: Connection) -> None:
    assert current_version(connection) == "0001"
    upgrade(connection)


async def test_an_older_database_is_migrated(profiles: Profiles, database: Database, tmp_path: Path) -> None:
    secrets = Secrets(database, tmp_path / "secrets.key")
    await secrets.put(LAB, "KEPT", "v", at_ms=1)
    await database.write(lambda connection: downgrade(connection, "0001"))
    await database.write(migrate)
    assert await database.read(current_version) == SCHEMA_VERSION
    await put(profiles)
    assert await secrets.get(LAB, "KEPT") == "v"
    assert [each.name for each in await profiles.all()] == ["cloud"]


async def test_opening_an_older_file_migrates_it(tmp_path: Path) -> None:
    old = await SqliteDatabase.open(tmp_path / "anygpu.db")
    await old.write(lambda connection: downgrade(connection, "0001"))
    await old.close()
    opened = await SqliteDatabase.open(tmp_path / "anygpu.db")
    await put(Profiles(opened, tmp_path / "secrets.key"))
    await opened.close()
