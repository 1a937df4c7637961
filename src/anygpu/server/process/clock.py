"""System implementations of the clock, randomness and wake-up protocols of `control`."""

import asyncio
import random
import secrets
import threading
import time
from collections.abc import Set as AbstractSet


class SystemClock:
    """The clocks of the operating system."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SystemRandomness:
    """The real source of randomness: secure tokens, and ordinary pseudo-random numbers for jitter."""

    def token(self, nbytes: int) -> str:
        return secrets.token_hex(nbytes)

    def uniform(self, low: float, high: float) -> float:
        return random.uniform(low, high)  # noqa: S311 - jitter needs no secrecy


class LoopWake:
    """Collects the ids of changed jobs, and wakes the control loop, which takes all of them. Any thread may add one."""

    def __init__(self) -> None:
        self._jobs: set[str] = set()
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.get_ident()

    def set(self, job_id: str) -> None:
        self._jobs.add(job_id)
        if self._loop is not None and threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._event.set)
        else:
            self._event.set()

    async def wait(self, timeout_s: float) -> AbstractSet[str]:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()
        woken, self._jobs = self._jobs, set()
        return woken
