"""Simulated users who submit, resubmit, cancel and migrate jobs and follow the event stream."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from anygpu.errors import AnygpuError
from anygpu.events.fold import Recorded
from anygpu.store.scope import Scope
from anygpu.testing.simulation.control_process import ControlProcess
from anygpu.testing.simulation.network import SimConnection, SimNetwork
from anygpu.testing.simulation.records import ClientRecord
from anygpu.testing.simulation.scenario import SimJob
from anygpu.testing.simulation.virtual_time import VirtualLoop

T = TypeVar("T")
SCOPE = Scope(organisation="lab", project="vision", person="ada")


class SimClient:
    """A user who submits one job. A submission without an idempotency key is not retried."""

    def __init__(self, job: SimJob, network: SimNetwork, loop: VirtualLoop) -> None:
        self.record = ClientRecord(job.key)
        self.done = False
        self._job = job
        self._scope = replace(SCOPE, project=job.project)
        self._network = network
        self._loop = loop
        self._connection = SimConnection(f"client {job.key or job.at}")

    async def run(self) -> None:
        await self._sleep_until(self._job.at)
        self.record.submitted_at = self._loop.time()
        await self._submit()
        if self._job.again_at is not None:
            await self._sleep_until(self._job.again_at)
            await self._submit()
        for at, request in sorted(self._requests(), key=lambda request: request[0]):
            if self.record.job_ids:
                await self._sleep_until(at)
                await request(self.record.job_ids[0])
        self.done = True

    def _requests(self) -> Iterator[tuple[float, Callable[[str], Awaitable[None]]]]:
        job = self._job
        if job.migrate_at is not None:
            yield job.migrate_at, self._migrate
        if job.release_at is not None:
            yield job.release_at, self._release
        if job.cancel_at is not None:
            yield job.cancel_at, self._cancel

    async def _submit(self) -> None:
        spec = self._job.spec()
        written = await self._call(
            lambda p: p.jobs.submit(self._scope, spec), repeat=spec.idempotency_key is not None
        )
        if written is not None:
            self.record.job_ids.append(written.view.id)

    async def _cancel(self, job_id: str) -> None:
        await self._call(lambda p: p.jobs.cancel(self._scope, job_id), repeat=True)
        self.record.cancel_acked = True

    async def _migrate(self, job_id: str) -> None:
        to = self._job.migrate_to
        await self._call(lambda p: p.jobs.migrate(self._scope, job_id, to), repeat=False)

    async def _release(self, job_id: str) -> None:
        await self._call(lambda p: p.jobs.release(self._scope, job_id), repeat=False)

    async def _call(self, invoke: Callable[[ControlProcess], Awaitable[T]], *, repeat: bool) -> T | None:
        while True:
            try:
                return await self._network.call(self._connection, invoke)
            except AnygpuError:
                if not repeat:
                    return None
                await asyncio.sleep(2)

    async def _sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._loop.time()))


class SimFollower:
    """A client that follows the events of a project and keeps all events it received."""

    def __init__(self, network: SimNetwork) -> None:
        self.received: list[Recorded] = []
        self._network = network
        self._connection = SimConnection("follower")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(20)
            await self.catch_up(most=7)

    async def catch_up(self, most: int) -> bool:
        """Read at most `most` new events. Return whether there were any."""
        after = self.received[-1].position if self.received else 0
        try:
            new: Sequence[Recorded] = await self._network.call(
                self._connection, lambda p: p.journal.events(SCOPE, after=after, limit=most)
            )
        except AnygpuError:
            return False
        self.received += new
        return bool(new)
