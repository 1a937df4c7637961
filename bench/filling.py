"""The stores of a state directory, opened without a server: for filling them before one starts."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from anygpu.store.evidence import Evidence
from anygpu.store.journal import Journal


@contextlib.asynccontextmanager
async def open_stores(state: Path) -> AsyncIterator[tuple[Journal, Evidence]]:
    from anygpu.store.sql.database import open_database
    from anygpu.store.sql.evidence import SqlEvidence
    from anygpu.store.sql.journal import SqlJournal

    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = await open_database(f"sqlite:///{state / 'anygpu.db'}")
    try:
        yield SqlJournal(database), SqlEvidence(database)
    finally:
        await database.close()
