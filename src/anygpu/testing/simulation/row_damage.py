"""Damage rows of the SQL journal during a history."""

import asyncio
import random
from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.engine.statements import execute, fetch_all
from anygpu.testing.simulation.faults import Fault, FaultInjector

INTERVAL_S = 5.0
VIEW_RATE = 0.3
EVENT_RATE = 0.02
VIEWS = ("", "null", "[]", '{"id": "', '{"status": "unknown"}')


class RowDamager:
    """Damages stored states of live jobs, and the events of at most one job, whose state then cannot be computed.

    It has its own random numbers, so that histories on the memory journal do not depend on it.
    """

    def __init__(
        self, database: InlineDatabase, seed: str, faults: FaultInjector, now: Callable[[], float]
    ) -> None:
        self._database = database
        self._random = random.Random(f"rows:{seed}")
        self._faults = faults
        self._now = now
        self.jobs: dict[str, float] = {}  # jobs with a damaged event, and when it was damaged

    async def run(self, live_jobs: Callable[[], Sequence[str]]) -> None:
        while self._faults.active:
            await asyncio.sleep(INTERVAL_S)
            live = live_jobs()
            if live and self._random.random() < VIEW_RATE:
                await self._damage_view(self._random.choice(live))
            if live and not self.jobs and self._random.random() < EVENT_RATE:
                await self._damage_event(self._random.choice(live))

    async def _damage_view(self, job_id: str) -> None:
        self._faults.record(Fault.VIEW_DAMAGED, job_id)
        sql, view = "UPDATE jobs SET view = ? WHERE id = ?", self._random.choice(VIEWS)
        await self._database.write(lambda connection: execute(connection, sql, (view, job_id)))

    async def _damage_event(self, job_id: str) -> None:
        self._faults.record(Fault.EVENT_DAMAGED, job_id)
        self.jobs[job_id] = self._now()
        choice = self._random.random()

        def work(connection: Connection) -> None:
            keys = fetch_all(
                connection, "SELECT project_id, position FROM events WHERE job_id = ?", (job_id,)
            )
            key = keys[int(choice * len(keys))]
            execute(connection, "UPDATE events SET data = '{' WHERE project_id = ? AND position = ?", key)

        await self._database.write(work)
        await self._damage_view(job_id)
