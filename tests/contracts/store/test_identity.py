"""The database and the blob store belong together, or nothing is removed."""

from collections.abc import AsyncIterator

import pytest

from anygpu.store.blobs.contract import BlobInfo
from anygpu.store.identity import ID_KEY, NO_ID, NO_JOBS, OTHER_ID, StoreIdentity
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.journal import submit
from anygpu.testing.memory.blobs import MemoryBlobs

FILE = "org/lab/plans/x.json"


class InterruptedBlobs(MemoryBlobs):
    """A store in which no put takes effect, as if the server was killed before."""

    async def put(self, key: str, data: bytes | AsyncIterator[bytes]) -> BlobInfo:
        raise ConnectionError


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


async def used_stores(database: Database, blobs: MemoryBlobs) -> StoreIdentity:
    identity = StoreIdentity(database, blobs)
    assert await identity.check() == ""
    await submit(SqlJournal(database), 1)
    await blobs.put(FILE, b"{}")
    return identity


async def test_new_stores_get_one_id_and_keep_it(database: Database, blobs: MemoryBlobs) -> None:
    identity = await used_stores(database, blobs)
    value = await blobs.get(ID_KEY)
    assert len(value) == 32
    assert await identity.check() == ""
    assert await identity.check_jobs() == ""
    assert await blobs.get(ID_KEY) == value


async def test_a_lost_database_is_noticed_even_after_new_jobs(database: Database, blobs: MemoryBlobs) -> None:
    await used_stores(InlineDatabase(), blobs)
    identity = StoreIdentity(database, blobs)
    assert await identity.check() == OTHER_ID
    await submit(SqlJournal(database), 2)
    assert await identity.check() == OTHER_ID
    await identity.adopt()
    assert await identity.check() == ""


async def test_a_lost_database_is_noticed_although_the_files_are_older_than_ids(
    database: Database, blobs: MemoryBlobs
) -> None:
    await blobs.put(FILE, b"{}")
    identity = StoreIdentity(database, blobs)
    assert await identity.check() == NO_ID
    await submit(SqlJournal(database), 1)
    assert await identity.check() == NO_ID
    await identity.adopt()
    assert await identity.check() == ""


async def test_stores_that_were_used_before_ids_existed_get_one(
    database: Database, blobs: MemoryBlobs
) -> None:
    await submit(SqlJournal(database), 1)
    await blobs.put(FILE, b"{}")
    assert await StoreIdentity(database, blobs).check() == ""
    assert await blobs.head(ID_KEY) is not None


async def test_files_of_another_store_are_noticed(database: Database, blobs: MemoryBlobs) -> None:
    await used_stores(database, blobs)
    other = MemoryBlobs()
    await used_stores(InlineDatabase(), other)
    assert await StoreIdentity(database, other).check() == OTHER_ID
    without_id = MemoryBlobs()
    await without_id.put(FILE, b"{}")
    assert await StoreIdentity(database, without_id).check() == NO_ID
    assert await StoreIdentity(database, MemoryBlobs()).check() == ""


async def test_a_damaged_id_is_noticed(database: Database, blobs: MemoryBlobs) -> None:
    identity = await used_stores(database, blobs)
    await blobs.put(ID_KEY, b"\xff torn")
    assert await identity.check() == OTHER_ID


async def test_a_first_start_that_was_interrupted_is_continued(
    database: Database, blobs: MemoryBlobs
) -> None:
    with pytest.raises(ConnectionError):
        await StoreIdentity(database, InterruptedBlobs()).check()
    await submit(SqlJournal(database), 1)
    await blobs.put(FILE, b"{}")
    assert await StoreIdentity(database, blobs).check() == ""


async def test_an_empty_database_removes_nothing_even_with_the_right_id(
    database: Database, blobs: MemoryBlobs
) -> None:
    identity = StoreIdentity(database, blobs)
    assert await identity.check() == ""
    assert await identity.check_jobs() == ""
    await blobs.put(FILE, b"{}")
    assert await identity.check() == ""
    assert await identity.check_jobs() == NO_JOBS
