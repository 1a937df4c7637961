"""The lease: how long we may go on believing that this attempt is ours."""

from __future__ import annotations

import time

# Boot time goes on while a laptop sleeps, as the server's clock did.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
WAKING_S = 5.0


def boot_clock() -> float:
    return time.clock_gettime(_CLOCK)


class Lease:
    """Counted from when the renewing request was *sent*: the server cannot have counted from earlier.

    Renewed by the threads that talk to the server, asked by the main loop; each write is one assignment.
    """

    def __init__(self, sent_at: float, lease_s: float) -> None:
        self._until = sent_at + lease_s
        self._asked_at = sent_at

    def renew(self, sent_at: float, lease_s: float) -> None:
        self._until = max(self._until, sent_at + lease_s) if lease_s > 0 else sent_at

    def is_over(self, now: float) -> bool:
        """A machine that slept gets a moment to ask the server before it stops a healthy job."""
        if now - self._asked_at > WAKING_S:
            self._until = max(self._until, now + WAKING_S)
        self._asked_at = now
        return now >= self._until
