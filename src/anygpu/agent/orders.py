"""Orders: the whole of what the server wants now, learnt from every answer and from a long poll."""

from __future__ import annotations

import threading
import time

from anygpu.agent.http11 import Unreachable
from anygpu.agent.lease import boot_clock
from anygpu.agent.wire import Backoff, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.lease import Lease
    from anygpu.agent.wire import Server

WAIT_S = 20.0


class Orders:
    """What is wanted: `cancel`, `stop` with its reason, or nothing; and whether the server still knows us."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.wanted: dict[str, Any] | None = None
        self.rejection: Refused | None = None

    def take(self, orders: list[dict[str, Any]]) -> None:
        kinds = {order.get("kind"): order for order in orders}
        found = kinds.get("cancel") or kinds.get("stop")
        if found is not None and found != self.wanted:
            self.wanted = found
            self._wake()

    def reject(self, refusal: Refused) -> None:
        if self.rejection is None:
            self.rejection = refusal
            self._wake()


def follow_orders(server: Server, orders: Orders, lease: Lease, first_after_s: float) -> None:
    """Long-poll in a thread of its own, so that an order is acted on when it is given."""
    thread = threading.Thread(
        target=_follow, args=(server, orders, lease, first_after_s), name="orders", daemon=True
    )
    thread.start()


def _follow(server: Server, orders: Orders, lease: Lease, first_after_s: float) -> None:
    # The first moments belong to the start of the job; reports carry orders meanwhile.
    time.sleep(first_after_s)
    backoff = Backoff()
    version = 0
    while orders.rejection is None:
        try:
            version = _ask(server, orders, lease, version)
            backoff.reset()
        except (Unreachable, KeyError, TypeError, ValueError):
            server.place.rest(backoff.next_s())
        except Refused as refusal:
            if refusal.we_are_nobody:
                orders.reject(refusal)
            server.place.rest(backoff.next_s(refusal.retry_after_s))


def _ask(server: Server, orders: Orders, lease: Lease, version: int) -> int:
    sent_at = boot_clock()
    path = f"/agent/v1/orders?after={version}&wait_s={WAIT_S:g}"
    answer = server.call("GET", path, timeout_s=WAIT_S + 10)
    lease.renew(sent_at, float(answer["lease_s"]))
    orders.take(answer.get("orders") or [])
    return int(answer["version"])
