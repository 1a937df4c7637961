"""Orders from the server, and the lease that says how long the attempt is still ours."""

from __future__ import annotations

import threading
import time

from anygpu.agent.link.client import Backoff, RequestRefused
from anygpu.agent.link.http11 import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.link.client import ServerClient

# Boot time goes on while a laptop sleeps, as the server's clock did.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
WAKE_GRACE_S = 5.0


def boot_clock() -> float:
    return time.clock_gettime(_CLOCK)


class AttemptLease:
    """Counted from when the renewing request was *sent*: the server cannot have counted from earlier.

    Renewed by the threads that talk to the server, asked by the main loop; each write is one assignment.
    """

    def __init__(self, sent_at: float, lease_s: float) -> None:
        self._until = sent_at + lease_s
        self._checked_at = sent_at

    def renew(self, sent_at: float, lease_s: float) -> None:
        self._until = max(self._until, sent_at + lease_s) if lease_s > 0 else sent_at

    def has_expired(self, now: float) -> bool:
        """A machine that slept gets a moment to ask the server before it stops a healthy job."""
        if now - self._checked_at > WAKE_GRACE_S:
            self._until = max(self._until, now + WAKE_GRACE_S)
        self._checked_at = now
        return now >= self._until


LONG_POLL_S = 20.0


class ServerOrders:
    """What is wanted: `cancel`, `stop` with its reason, or nothing; and whether the server still knows us."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.current: dict[str, Any] | None = None
        self.rejection: RequestRefused | None = None

    def update(self, orders: list[dict[str, Any]]) -> None:
        kinds = {order.get("kind"): order for order in orders}
        found = kinds.get("cancel") or kinds.get("stop")
        if found is not None and found != self.current:
            self.current = found
            self._wake()

    def reject(self, refusal: RequestRefused) -> None:
        if self.rejection is None:
            self.rejection = refusal
            self._wake()


def start_polling(
    server: ServerClient, orders: ServerOrders, lease: AttemptLease, first_after_s: float
) -> None:
    """Long-poll in a thread of its own, so that an order is acted on when it is given."""
    thread = threading.Thread(
        target=_poll_forever, args=(server, orders, lease, first_after_s), name="orders", daemon=True
    )
    thread.start()


def _poll_forever(
    server: ServerClient, orders: ServerOrders, lease: AttemptLease, first_after_s: float
) -> None:
    # The first moments belong to the start of the job; reports carry orders meanwhile.
    time.sleep(first_after_s)
    backoff = Backoff()
    version = 0
    while orders.rejection is None:
        try:
            version = _poll_once(server, orders, lease, version)
            backoff.reset()
        except (Unreachable, KeyError, TypeError, ValueError):
            server.address.wait(backoff.next_s())
        except RequestRefused as refusal:
            if refusal.is_rejection:
                orders.reject(refusal)
            server.address.wait(backoff.next_s(refusal.retry_after_s))


def _poll_once(server: ServerClient, orders: ServerOrders, lease: AttemptLease, version: int) -> int:
    sent_at = boot_clock()
    path = f"/agent/v1/orders?after={version}&wait_s={LONG_POLL_S:g}"
    response = server.call("GET", path, timeout_s=LONG_POLL_S + 10)
    lease.renew(sent_at, float(response["lease_s"]))
    orders.update(response.get("orders") or [])
    return int(response["version"])
