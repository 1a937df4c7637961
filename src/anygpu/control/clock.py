"""Interfaces to time, randomness and wake-ups. The simulation implements them with virtual time."""

from collections.abc import Set as AbstractSet
from typing import Protocol


class Clock(Protocol):
    """A source of time. Wall time is for display; timeouts use monotonic time."""

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
    """Wakes the control loop when a job has changed. A lost wake-up only delays work until the next poll."""

    def set(self, job_id: str) -> None: ...

    async def wait(self, timeout_s: float) -> AbstractSet[str]:
        """Wait at most `timeout_s` for wake-ups.

        Return the ids of the jobs that changed since the last call.
        """
        ...
