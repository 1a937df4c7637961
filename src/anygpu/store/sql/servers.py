"""The server processes that share the database: each records its addresses and renews its row."""

from dataclasses import astuple, dataclass

from sqlalchemy import Connection

from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import require_compatible
from anygpu.store.sql.engine.statements import execute, fetch_all, now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRecord:
    """A server process: its machine, the URLs of its API and of its agent listener, and its version."""

    id: str
    host: str
    url: str
    agent_url: str
    version: str
    schema_version: str
    started_at_ms: int


class ServerTable:
    """The table of server processes. A process that does not renew its row is removed by the others."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def renew(self, record: ServerRecord, *, ttl_s: float) -> list[ServerRecord]:
        """Write the row of this process and remove rows that have expired. Return the live processes by age.

        Raise SchemaTooNew if a newer server has changed the tables so that this process must not write to them.
        """

        def work(connection: Connection) -> list[ServerRecord]:
            require_compatible(connection)
            now = now_ms(connection)
            execute(connection, _UPSERT, (*astuple(record), now + round(ttl_s * 1000)))
            execute(connection, "DELETE FROM servers WHERE expires_ms <= ? AND id <> ?", (now, record.id))
            return [_to_record(row) for row in fetch_all(connection, _SELECT, (now,))]

        return await self._database.write(work)

    async def remove(self, server_id: str) -> None:
        await self._database.write(
            lambda connection: execute(connection, "DELETE FROM servers WHERE id = ?", (server_id,))
        )

    async def live(self) -> list[ServerRecord]:
        def work(connection: Connection) -> list[ServerRecord]:
            return [_to_record(row) for row in fetch_all(connection, _SELECT, (now_ms(connection),))]

        return await self._database.read(work)


_COLUMNS = "id, host, url, agent_url, version, schema_version, started_at_ms"
_SELECT = f"SELECT {_COLUMNS} FROM servers WHERE expires_ms > ? ORDER BY started_at_ms, id"  # noqa: S608
_UPSERT = (
    f"INSERT INTO servers ({_COLUMNS}, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
    " ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms"
)


def _to_record(row: tuple[str, str, str, str, str, str, int]) -> ServerRecord:
    server_id, host, url, agent_url, version, schema_version, started_at_ms = row
    return ServerRecord(
        id=server_id,
        host=host,
        url=url,
        agent_url=agent_url,
        version=version,
        schema_version=schema_version,
        started_at_ms=started_at_ms,
    )
