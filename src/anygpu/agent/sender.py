"""The sender: takes frames from the spool to the server, in order, until the server has made them durable."""

from __future__ import annotations

import threading
import time

from anygpu.agent.http11 import Unreachable
from anygpu.agent.lease import boot_clock
from anygpu.agent.wire import Backoff, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.lease import Lease
    from anygpu.agent.orders import Orders
    from anygpu.agent.spool import Spool
    from anygpu.agent.wire import Server

REQUEST_BYTES = 2**20
REFUSALS = 3


class Sender:
    """One request in flight at a time; when there is nothing to send, a heartbeat now and then."""

    def __init__(
        self, server: Server, spool: Spool, lease: Lease, orders: Orders, heartbeat_s: float
    ) -> None:
        self._server = server
        self._spool = spool
        self._lease = lease
        self._orders = orders
        self._heartbeat_s = heartbeat_s
        self._changed = threading.Condition()
        self._news = False
        self._heard_at = time.monotonic()
        self._backoff = Backoff()
        self._refusals = 0

    def start(self) -> None:
        threading.Thread(target=self._run, name="sender", daemon=True).start()

    def wake(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def deliver_all(self, until: float) -> bool:
        """Wait until every frame is acknowledged.

        False when `until` (monotonic) came first, or we are nobody.
        """
        self.wake()
        with self._changed:
            while not self._spool.is_empty:
                left_s = until - time.monotonic()
                if left_s <= 0 or self._orders.rejection is not None:
                    return False
                self._changed.wait(min(left_s, 1.0))
        return True

    def _run(self) -> None:
        while self._orders.rejection is None:
            self._wait_for_news()
            try:
                self._send_what_there_is()
            except (Unreachable, KeyError, TypeError, ValueError):
                self._rest(0.0)  # no answer, or one that no server of ours gives: a proxy's, say
            except Refused as refusal:
                self._handle(refusal)

    def _wait_for_news(self) -> None:
        with self._changed:
            self._changed.notify_all()
            if not self._news:
                left_s = self._heard_at + self._heartbeat_s - time.monotonic()
                self._changed.wait(max(left_s, 0.0))

    def _send_what_there_is(self) -> None:
        self._news = False
        first, last, body = self._spool.batch(1 if self._refusals else REQUEST_BYTES)
        if last >= first:
            self._report(first, last, body)
            self._refusals = 0
        elif time.monotonic() - self._heard_at >= self._heartbeat_s:
            self._heard(boot_clock(), self._server.call("POST", "/agent/v1/heartbeat"))

    def _report(self, first: int, last: int, body: bytes) -> None:
        self._news = True  # until this round finds nothing left to send
        sent_at = boot_clock()
        answer = self._server.call("POST", f"/agent/v1/reports?first={first}&last={last}", body)
        self._spool.acknowledge(int(answer["acked"]))
        self._heard(sent_at, answer)

    def _heard(self, sent_at: float, answer: dict[str, Any]) -> None:
        self._heard_at = time.monotonic()
        self._backoff.reset()
        self._lease.renew(sent_at, float(answer["lease_s"]))
        self._orders.take(answer.get("orders") or [])

    def _handle(self, refusal: Refused) -> None:
        if refusal.code == "gap":
            # What the server has is what it says it has: it goes on from there, and so do we.
            self._spool.acknowledge(int(refusal.problem.get("expected", 1)) - 1)
        elif refusal.we_are_nobody:
            self._orders.reject(refusal)
        elif not refusal.may_pass:
            self._set_aside_what_is_refused(refusal)
        self._rest(refusal.retry_after_s)

    def _set_aside_what_is_refused(self, refusal: Refused) -> None:
        """One frame at a time, to find the one that is refused; it must not hold up all that follow."""
        self._refusals += 1
        if self._refusals > REFUSALS:
            first, _, _ = self._spool.batch(1)
            self._spool.blank(first, str(refusal))

    def _rest(self, at_least_s: float) -> None:
        self._server.place.rest(self._backoff.next_s(at_least_s))
        self._news = True
