"""The table of server processes: rows are renewed, expire and are removed."""

from dataclasses import replace

import pytest

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.properties import set_property
from anygpu.store.sql.engine.schema import SCHEMA_VERSION, SchemaTooNew
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.servers import ServerRecord, ServerTable

FIRST = ServerRecord(
    id="first",
    host="a",
    url="http://a:1",
    agent_url="http://a:2",
    version="1.0",
    schema_version=SCHEMA_VERSION,
    started_at_ms=1,
)
SECOND = replace(FIRST, id="second", host="b", url="http://b:1", agent_url="http://b:2", started_at_ms=2)


async def test_every_server_knows_all_live_servers(database: Database) -> None:
    table = ServerTable(database)
    assert await table.renew(SECOND, ttl_s=60) == [SECOND]
    assert await table.renew(FIRST, ttl_s=60) == [FIRST, SECOND]
    assert await table.renew(FIRST, ttl_s=60) == [FIRST, SECOND], "a renewal adds no second row"
    assert await table.live() == [FIRST, SECOND]


async def test_a_server_that_does_not_renew_is_removed(database: Database) -> None:
    table = ServerTable(database)
    await table.renew(FIRST, ttl_s=-1)
    assert await table.live() == []
    assert await table.renew(SECOND, ttl_s=60) == [SECOND]
    assert await table.renew(FIRST, ttl_s=60) == [FIRST, SECOND], "it comes back when it renews"


async def test_a_server_that_stops_removes_its_row(database: Database) -> None:
    table = ServerTable(database)
    await table.renew(FIRST, ttl_s=60)
    await table.renew(SECOND, ttl_s=60)
    await table.remove(FIRST.id)
    await table.remove(FIRST.id)
    assert await table.live() == [SECOND]


async def test_a_server_that_is_too_old_for_new_tables_is_told_so(database: Database) -> None:
    table = ServerTable(database)
    await table.renew(FIRST, ttl_s=60)
    await database.write(lambda c: set_property(c, "schema_oldest_server", SCHEMA_VERSION))
    await database.write(lambda c: execute(c, "UPDATE alembic_version SET version_num = '9998'"))
    try:
        await table.renew(FIRST, ttl_s=60)
        await database.write(lambda c: set_property(c, "schema_oldest_server", "9998"))
        with pytest.raises(SchemaTooNew, match="schema 9998 on"):
            await table.renew(FIRST, ttl_s=60)
    finally:
        await database.write(
            lambda c: execute(c, "UPDATE alembic_version SET version_num = ?", (SCHEMA_VERSION,))
        )
