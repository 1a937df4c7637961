"""The database of simulations: no threads, its own clock, and transactions as elsewhere."""

import pytest
from sqlalchemy import Connection

from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.engine.statements import execute, fetch_all, now_ms


def insert(connection: Connection) -> int:
    return execute(
        connection, "INSERT INTO projects (organisation, project, head) VALUES (?, ?, 0)", ("lab", "a")
    )


def names(connection: Connection) -> list[str]:
    return [row[0] for row in fetch_all(connection, "SELECT project FROM projects")]


async def test_a_write_is_seen_by_later_reads_and_reported_when_it_is_committed() -> None:
    database = InlineDatabase()
    committed: list[int] = []
    await database.write(insert, then=committed.append)
    assert committed == [1]
    assert await database.read(names) == ["a"]
    await database.close()


async def test_work_that_fails_leaves_nothing_behind() -> None:
    database = InlineDatabase()
    committed: list[int] = []

    def fail(connection: Connection) -> int:
        insert(connection)
        raise KeyError("no")

    with pytest.raises(KeyError):
        await database.write(fail, then=committed.append)
    assert committed == []
    assert await database.read(names) == []
    await database.close()


async def test_databases_are_independent_of_each_other() -> None:
    one, other = InlineDatabase(), InlineDatabase()
    await one.write(insert)
    assert (await one.read(names), await other.read(names)) == (["a"], [])
    await one.close()
    await other.close()


async def test_the_clock_of_the_simulation_is_that_of_the_database() -> None:
    database = InlineDatabase(now_ms=lambda: 1234)
    assert await database.read(now_ms) == 1234
    await database.close()
