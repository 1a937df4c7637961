"""Time, randomness and wake-ups as the control loop sees them, so that the simulation can replace them."""

from collections.abc import Set as AbstractSet
from typing import Protocol


class Clock(Protocol):
    """Tells the time. Wall time is for display; timeouts use monotonic time."""

    def wall_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class Randomness(Protocol):
    """A source of randomness for ids, tickets and jitter."""

    def token(self, nbytes: int) -> str:
        """Return `nbytes` of cryptographically strong randomness as hex."""
        ...

    def uniform(self, low: float, high: float) -> float: ...


class WakeSignal(Protocol):
    """Wakes the control loop when a job changed. A lost wake-up delays work but breaks nothing."""

    def set(self, job_id: str) -> None: ...

    async def wait(self, timeout_s: float) -> AbstractSet[str]:
        """Wait for wake-ups, at most `timeout_s`. Returns the ids of the jobs that changed since the last call."""
        ...
