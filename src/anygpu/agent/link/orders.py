"""Orders from the server (cancel or stop the job), and the lease: how long the agent may run offline."""

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

# Unlike monotonic time, boot time includes the time a machine was suspended.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
WAKE_GRACE_S = 5.0


def boot_clock() -> float:
    return time.clock_gettime(_CLOCK)


class AttemptLease:
    """The time until which the agent may run the job without contact with the server.

    A renewal counts from the moment the request was sent, so the agent's lease never ends later than the
    server's. The threads that call the server renew the lease and the main loop reads it; each write is a
    single assignment.
    """

    def __init__(self, sent_at: float, lease_s: float) -> None:
        self._until = sent_at + lease_s
        self._checked_at = sent_at

    def renew(self, sent_at: float, lease_s: float) -> None:
        self._until = max(self._until, sent_at + lease_s) if lease_s > 0 else sent_at

    def has_expired(self, now: float) -> bool:
        """Return whether the lease has expired at `now` (boot clock).

        A machine that wakes up from suspend gets WAKE_GRACE_S to contact the server before its lease expires.
        """
        if now - self._checked_at > WAKE_GRACE_S:
            self._until = max(self._until, now + WAKE_GRACE_S)
        self._checked_at = now
        return now >= self._until


LONG_POLL_S = 20.0
ENDED = "ended"  # the reason of the order to cancel, after the attempt has ended on all its nodes


class ServerOrders:
    """The server's current order: `cancel`, `stop` with a reason, or None; and whether somebody watches the job.

    `rejection` is set when the server no longer accepts this agent, for example because another agent owns
    the attempt.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.current: dict[str, Any] | None = None
        self.is_watched = False  # a page in a browser shows the job
        self.rejection: RequestRefused | None = None

    def update(self, orders: list[dict[str, Any]]) -> None:
        kinds = {each.get("kind"): each for each in orders}
        order = kinds.get("cancel") or kinds.get("stop")
        if order is not None and order != self.current:
            self.current = order
            self._wake()

    @property
    def has_attempt_ended(self) -> bool:
        """Whether the attempt has ended on all its nodes. Servers of older versions do not say it."""
        return self.current is not None and self.current.get("reason") == ENDED

    def reject(self, refusal: RequestRefused) -> None:
        if self.rejection is None:
            self.rejection = refusal
            self._wake()


def start_polling(
    server: ServerClient, orders: ServerOrders, lease: AttemptLease, first_after_s: float
) -> None:
    """Poll the server for orders in a thread, with long polling, so that a new order takes effect immediately.

    The first request is sent after `first_after_s` seconds, so that it does not delay the start of the job.
    """
    thread = threading.Thread(
        target=_poll_forever, args=(server, orders, lease, first_after_s), name="orders", daemon=True
    )
    thread.start()


def _poll_forever(
    server: ServerClient, orders: ServerOrders, lease: AttemptLease, first_after_s: float
) -> None:
    # Do not delay the start of the job. Responses to reports contain orders as well.
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
