"""Parts of a running server that are built from its settings."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from anygpu.errors import StoreBusy
from anygpu.store.sql.engine.database import Work
from anygpu.store.sql.journal import SqlJournal
from anygpu.wiring.server import _readiness_check

T = TypeVar("T")


class SilentDatabase:
    """A database that never answers."""

    async def read(self, work: Work[T]) -> T:
        await asyncio.Event().wait()
        raise AssertionError

    async def write(self, work: Work[T], *, then: Callable[[T], None] | None = None) -> T:
        return await self.read(work)

    async def close(self) -> None:
        """Do nothing."""


async def test_a_server_is_not_ready_while_its_database_does_not_answer() -> None:
    check = _readiness_check(SqlJournal(SilentDatabase()), limit_s=0.01)
    with pytest.raises(StoreBusy, match="has not answered within"):
        await asyncio.wait_for(check(), timeout=30)
