"""Simulated crashes: after a crash, every call of the process waits forever, so its `finally` clauses never run."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from anygpu.errors import StorageFull, StoreBusy
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.virtual_time import VirtualLoop

T = TypeVar("T")
CallKind = Literal["read", "write", "act", "call"]


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A crash at the n-th write, just before or just after the write takes effect."""

    write: int
    before: bool


class ProcessLife:
    """The state of one process: running, stalled or dead."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        faults: FaultInjector,
        latency_s: float,
        crash: CrashPoint | None,
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

    def running_s(self, since: float, until: float) -> float:
        """Return for how many seconds between `since` and `until` the process was not stalled."""
        awake, at = 0.0, since
        for began, ended in sorted(self._stalls):
            awake += max(0.0, min(began, until) - at)
            at = max(at, min(ended, until))
        return awake + max(0.0, until - at)

    def die(self) -> None:
        if self.alive:
            self.alive = False
            self._on_death()

    async def wait_until_running(self) -> None:
        """Wait while the process is stalled. Never return if the process is dead."""
        if self.alive and self._loop.time() < self._stalled_until:
            await asyncio.sleep(self._stalled_until - self._loop.time())
        if not self.alive:
            await self._loop.create_future()

    async def call(self, kind: CallKind, call: Callable[[], Awaitable[T]]) -> T:
        """Make one call on behalf of the process and return its result. Never return if the process is dead.

        Calls to stores (kinds `read` and `write`) take a random time, so that the calls of processes
        interleave.
        """
        if self._latency_s and kind in ("read", "write"):
            await asyncio.sleep(self._faults.uniform(0, self._latency_s))
        if not self._is_running():
            await self.wait_until_running()
        if kind in ("write", "act"):
            return await self._call_with_effect(kind, call)
        self._maybe_fail(kind)
        result = await call()
        if not self._is_running():
            await self.wait_until_running()
        return result

    def _is_running(self) -> bool:
        return self.alive and self._loop.time() >= self._stalled_until

    async def _call_with_effect(self, kind: CallKind, call: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        await self._maybe_die(before=True)
        await self._maybe_stall()
        self._maybe_fail(kind)
        result = await call()
        await self._maybe_die(before=False)
        await self.wait_until_running()
        if kind == "write" and self._faults.occurs(Fault.ANSWER_OF_STORE_LOST):
            raise StoreBusy("the connection broke after the commit")
        return result

    async def _maybe_die(self, *, before: bool) -> None:
        planned = self._crash is not None and self._crash == CrashPoint(self.writes, before)
        fault = Fault.KILLED_BEFORE_WRITE if before else Fault.KILLED_AFTER_WRITE
        if planned:
            self._faults.record(fault, self.name)
        if planned or self._faults.occurs(fault):
            self.die()
            await self.wait_until_running()

    async def _maybe_stall(self) -> None:
        if self._faults.occurs(Fault.STALLED):
            self._stalled_until = self._loop.time() + self._faults.uniform(15, 60)
            self._stalls.append((self._loop.time(), self._stalled_until))
            await self.wait_until_running()

    def _maybe_fail(self, kind: CallKind) -> None:
        if kind in ("read", "write") and self._faults.occurs(Fault.STORE_BUSY):
            raise StoreBusy()
        if kind == "write" and self._faults.occurs(Fault.STORAGE_FULL):
            raise StorageFull()


class _Proxy:
    """An object with the same methods as another object. Each call goes through `ProcessLife.call`."""


def crashable(inner: T, life: ProcessLife, **kinds: CallKind) -> T:
    """Return a wrapper of `inner` whose calls stall when the process stalls, and never return once it is dead.

    `kinds` is the kind of call of each method, for example `submit="write"`; the default is `read`.
    """
    outer = _Proxy()
    if unknown := kinds.keys() - set(dir(inner)):
        raise ValueError(
            f"{type(inner).__name__} has no method {', '.join(sorted(unknown))}. Correct the arguments of `crashable`."
        )
    for name in (name for name in dir(inner) if not name.startswith("_")):
        verb = getattr(inner, name)
        setattr(outer, name, _wrap(verb, life, kinds.get(name, "read")))
    return cast(T, outer)


def _wrap(verb: Any, life: ProcessLife, kind: CallKind) -> Any:
    if inspect.isasyncgenfunction(verb):
        return lambda *args, **options: _stream(verb(*args, **options), life)
    if not inspect.iscoroutinefunction(verb):
        return verb

    async def call_through_life(*args: Any, **options: Any) -> Any:
        return await life.call(kind, lambda: verb(*args, **options))

    return call_through_life


async def _stream(pieces: AsyncIterator[T], life: ProcessLife) -> AsyncIterator[T]:
    async for piece in pieces:
        await life.wait_until_running()
        yield piece
