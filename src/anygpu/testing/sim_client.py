"""People in a simulated world: they submit, submit again, cancel, and follow the stream."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from anygpu.errors import AnygpuError
from anygpu.events.fold import Recorded
from anygpu.store.scope import Scope
from anygpu.testing.network import Line, Network
from anygpu.testing.process import ControlProcess
from anygpu.testing.records import ClientRecord
from anygpu.testing.scenario import Asked
from anygpu.testing.virtual import VirtualLoop

T = TypeVar("T")
SCOPE = Scope(organisation="lab", project="vision", person="ada")


class Client:
    """Asks for one job. Without an idempotency key it does not repeat what may have been heard."""

    def __init__(self, asked: Asked, network: Network, loop: VirtualLoop) -> None:
        self.record = ClientRecord(asked.key)
        self.done = False
        self._asked = asked
        self._scope = replace(SCOPE, project=asked.project)
        self._network = network
        self._loop = loop
        self._line = Line(f"client {asked.key or asked.at}")

    async def run(self) -> None:
        await self._until(self._asked.at)
        self.record.submitted_at = self._loop.time()
        await self._submit()
        if self._asked.again_at is not None:
            await self._until(self._asked.again_at)
            await self._submit()
        for at, wish in sorted(self._wishes(), key=lambda wish: wish[0]):
            if self.record.job_ids:
                await self._until(at)
                await wish(self.record.job_ids[0])
        self.done = True

    def _wishes(self) -> Iterator[tuple[float, Callable[[str], Awaitable[None]]]]:
        asked = self._asked
        if asked.migrate_at is not None:
            yield asked.migrate_at, self._migrate
        if asked.release_at is not None:
            yield asked.release_at, self._release
        if asked.cancel_at is not None:
            yield asked.cancel_at, self._cancel

    async def _submit(self) -> None:
        spec = self._asked.spec()
        written = await self._ask(
            lambda p: p.jobs.submit(self._scope, spec), repeat=spec.idempotency_key is not None
        )
        if written is not None:
            self.record.job_ids.append(written.view.id)

    async def _cancel(self, job_id: str) -> None:
        await self._ask(lambda p: p.jobs.cancel(self._scope, job_id), repeat=True)
        self.record.cancel_acked = True

    async def _migrate(self, job_id: str) -> None:
        to = self._asked.migrate_to
        await self._ask(lambda p: p.jobs.migrate(self._scope, job_id, to), repeat=False)

    async def _release(self, job_id: str) -> None:
        await self._ask(lambda p: p.jobs.release(self._scope, job_id), repeat=False)

    async def _ask(self, invoke: Callable[[ControlProcess], Awaitable[T]], *, repeat: bool) -> T | None:
        while True:
            try:
                return await self._network.call(self._line, invoke)
            except AnygpuError:
                if not repeat:
                    return None
                await asyncio.sleep(2)

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._loop.time()))


class Follower:
    """Reads the project's stream from a cursor; what it was shown must stay true."""

    def __init__(self, network: Network) -> None:
        self.shown: list[Recorded] = []
        self._network = network
        self._line = Line("follower")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(20)
            await self.catch_up(most=7)

    async def catch_up(self, most: int) -> bool:
        """True when there was something new."""
        after = self.shown[-1].position if self.shown else 0
        try:
            new: Sequence[Recorded] = await self._network.call(
                self._line, lambda p: p.journal.events(SCOPE, after=after, limit=most)
            )
        except AnygpuError:
            return False
        self.shown += new
        return bool(new)
