"""The stores of a state directory, opened without a server: for filling them before one starts."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from anygpu.store.journal import Journal
from anygpu.store.reports import Reports


@contextlib.asynccontextmanager
async def open_stores(state: Path) -> AsyncIterator[tuple[Journal, Reports]]:
    from anygpu.store.sql.engine.database import open_database
    from anygpu.store.sql.journal import SqlJournal
    from anygpu.store.sql.report_store.reports import SqlReports

    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = await open_database(f"sqlite:///{state / 'anygpu.db'}")
    try:
        yield SqlJournal(database), SqlReports(database)
    finally:
        await database.close()
