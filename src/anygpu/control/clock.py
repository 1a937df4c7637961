"""Time, randomness and wake-ups as the control loop sees them, so that the simulation can replace them."""

from collections.abc import Set as AbstractSet
from typing import Protocol


class Clock(Protocol):
    """Time. Wall time is for people; every timeout is monotonic."""

    def wall_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Randomness(Protocol):
    """Randomness: ids, tickets, jitter."""

    def token(self, nbytes: int) -> str:
        """Unguessable hex."""
        ...

    def uniform(self, low: float, high: float) -> float: ...


class Wake(Protocol):
    """Says that a job changed, so that nobody has to poll. Losing a wake-up costs time, never correctness."""

    def set(self, job_id: str) -> None: ...

    async def wait(self, timeout_s: float) -> AbstractSet[str]:
        """Jobs woken since the last call; empty after `timeout_s` without any."""
        ...
