"""Processes that die. Every seam of a dead process hangs for ever, so not even its `finally` clauses run."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from anygpu.errors import StorageFull, StoreBusy
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.virtual import VirtualLoop

T = TypeVar("T")
Kind = Literal["read", "write", "act", "call"]


@dataclass(frozen=True, slots=True)
class Crash:
    """Die at the n-th write, just before it takes effect or just after."""

    write: int
    before: bool


class Life:
    """One process: alive until it is killed, and perhaps standing still for a while."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        faults: Faults,
        latency_s: float,
        crash: Crash | None,
        on_death: Callable[[], None],
    ) -> None:
        self.name = name
        self.alive = True
        self.writes = 0
        self._loop = loop
        self._faults = faults
        self._latency_s = latency_s
        self._crash = crash
        self._on_death = on_death
        self._stalled_until = 0.0
        self._stalls: list[tuple[float, float]] = []

    def awake_s(self, since: float, until: float) -> float:
        """How much of that time it did not stand still."""
        awake, at = 0.0, since
        for began, ended in sorted(self._stalls):
            awake += max(0.0, min(began, until) - at)
            at = max(at, min(ended, until))
        return awake + max(0.0, until - at)

    def die(self) -> None:
        if self.alive:
            self.alive = False
            self._on_death()

    async def pulse(self) -> None:
        """Go on only if the process does."""
        if self.alive and self._loop.time() < self._stalled_until:
            await asyncio.sleep(self._stalled_until - self._loop.time())
        if not self.alive:
            await self._loop.create_future()

    async def through(self, kind: Kind, call: Callable[[], Awaitable[T]]) -> T:
        """One call through a seam. Stores take their time, so that others come in between."""
        if self._latency_s and kind in ("read", "write"):
            await asyncio.sleep(self._faults.between(0, self._latency_s))
        if not self._well():
            await self.pulse()
        if kind in ("write", "act"):
            return await self._effect(kind, call)
        self._maybe_busy(kind)
        result = await call()
        if not self._well():
            await self.pulse()
        return result

    def _well(self) -> bool:
        return self.alive and self._loop.time() >= self._stalled_until

    async def _effect(self, kind: Kind, call: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        await self._maybe_die(before=True)
        await self._maybe_stall()
        self._maybe_busy(kind)
        result = await call()
        await self._maybe_die(before=False)
        await self.pulse()
        if kind == "write" and self._faults.strikes(Fault.ANSWER_OF_STORE_LOST):
            raise StoreBusy("the connection broke after the commit")
        return result

    async def _maybe_die(self, *, before: bool) -> None:
        planned = self._crash is not None and self._crash == Crash(self.writes, before)
        fault = Fault.KILLED_BEFORE_WRITE if before else Fault.KILLED_AFTER_WRITE
        if planned:
            self._faults.note(fault, self.name)
        if planned or self._faults.strikes(fault):
            self.die()
            await self.pulse()

    async def _maybe_stall(self) -> None:
        if self._faults.strikes(Fault.STALLED):
            self._stalled_until = self._loop.time() + self._faults.between(15, 60)
            self._stalls.append((self._loop.time(), self._stalled_until))
            await self.pulse()

    def _maybe_busy(self, kind: Kind) -> None:
        if kind in ("read", "write") and self._faults.strikes(Fault.STORE_BUSY):
            raise StoreBusy()
        if kind == "write" and self._faults.strikes(Fault.STORAGE_FULL):
            raise StorageFull()


class _Seam:
    """Stands for a seam; its attributes are the seam's, gated by a life."""


def mortal(inner: T, life: Life, **kinds: Kind) -> T:
    """The same seam, as seen from inside a process that may die. `kinds` names what each verb is."""
    outer = _Seam()
    for name in (name for name in dir(inner) if not name.startswith("_")):
        verb = getattr(inner, name)
        setattr(outer, name, _gated(verb, life, kinds.get(name, "read")))
    return cast(T, outer)


def _gated(verb: Any, life: Life, kind: Kind) -> Any:
    if inspect.isasyncgenfunction(verb):
        return lambda *args, **options: _stream(verb(*args, **options), life)
    if not inspect.iscoroutinefunction(verb):
        return verb

    async def gated(*args: Any, **options: Any) -> Any:
        return await life.through(kind, lambda: verb(*args, **options))

    return gated


async def _stream(pieces: AsyncIterator[T], life: Life) -> AsyncIterator[T]:
    async for piece in pieces:
        await life.pulse()
        yield piece
