"""Send the frames (encoded reports) that are on disk, in order, until the server has stored all of them."""

from __future__ import annotations

import threading
import time

from anygpu.agent.link.client import Backoff, RequestRefused
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.orders import boot_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.link.client import ServerClient
    from anygpu.agent.link.orders import AttemptLease, ServerOrders
    from anygpu.agent.link.spool import Spool

# After a failed request, the next ones are smaller: over a slow connection a large one never arrives in time.
REQUEST_BYTES, MIN_REQUEST_BYTES = 2**20, 2**16
SHRINK, GROW = 4, 1.25
MAX_REFUSALS = 3
ANSWER_TIMEOUT_S = 30.0
# If another server can be asked, this one must answer sooner: long before the lease ends.
FAILOVER_TIMEOUT_S = 10.0
LEASE_SHARE = 0.25


class ReportSender:
    """A thread that sends the frames (encoded reports) that are on disk, one request at a time.

    When there is nothing to send, it sends heartbeats.
    """

    def __init__(
        self,
        server: ServerClient,
        spool: Spool,
        lease: AttemptLease,
        orders: ServerOrders,
        heartbeat_s: float,
    ) -> None:
        self._server = server
        self._spool = spool
        self._lease = lease
        self._orders = orders
        self._heartbeat_s = heartbeat_s
        self._changed = threading.Condition()
        self._has_work = False
        self._contact_at = time.monotonic()
        self._backoff = Backoff()
        self._refusals = 0
        self._first_sent: int | None = None  # of the newest request; None for a heartbeat
        self._request_bytes = REQUEST_BYTES
        self._failover_timeout_s = FAILOVER_TIMEOUT_S

    def start(self) -> None:
        threading.Thread(target=self._run, name="sender", daemon=True).start()

    def wake(self) -> None:
        with self._changed:
            self._has_work = True
            self._changed.notify_all()

    def deliver_all(self, until: float) -> bool:
        """Wait until the server has stored all reports, and return True.

        Return False if `until` (monotonic clock) passes first, or if the server rejects this agent.
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
            self._wait_for_work()
            try:
                self._send_and_handle_refusal()
            except (Unreachable, KeyError, TypeError, ValueError):
                # There was no response, or one that is not from our server, such as a proxy's.
                self._request_bytes = max(MIN_REQUEST_BYTES, self._request_bytes // SHRINK)
                self._back_off(0.0)
            except OSError:
                self._back_off(0.0)  # the disk cannot be read now; the next try may succeed

    def _wait_for_work(self) -> None:
        with self._changed:
            self._changed.notify_all()
            if not self._has_work:
                left_s = self._contact_at + self._heartbeat_s - time.monotonic()
                self._changed.wait(max(left_s, 0.0))

    def _send_and_handle_refusal(self) -> None:
        try:
            self._send_pending()
        except RequestRefused as refusal:
            if refusal.is_foreign:
                raise Unreachable(str(refusal)) from refusal
            self._handle_refusal(refusal)

    def _send_pending(self) -> None:
        self._has_work = False
        self._first_sent = None
        first, last, body = self._spool.batch(1 if self._refusals else self._request_bytes)
        if last >= first:
            self._send_batch(first, last, body)
            self._refusals = 0
        elif time.monotonic() - self._contact_at >= self._heartbeat_s:
            self._record_contact(boot_clock(), self._call("/agent/v1/heartbeat", b""))

    def _send_batch(self, first: int, last: int, body: bytes) -> None:
        self._has_work = True  # there may be more; the next round finds out
        self._first_sent = first
        sent_at = boot_clock()
        response = self._call(f"/agent/v1/reports?first={first}&last={last}", body)
        self._spool.acknowledge(int(response["acked"]))
        self._request_bytes = min(REQUEST_BYTES, int(self._request_bytes * GROW))
        self._record_contact(sent_at, response)

    def _call(self, path: str, body: bytes) -> dict[str, Any]:
        has_others = self._server.address.has_others
        timeout_s = self._failover_timeout_s if has_others else ANSWER_TIMEOUT_S
        return self._server.call("POST", path, body, timeout_s=timeout_s)

    def _record_contact(self, sent_at: float, response: dict[str, Any]) -> None:
        self._contact_at = time.monotonic()
        self._backoff.reset()
        lease_s = float(response["lease_s"])
        self._lease.renew(sent_at, lease_s)
        self._failover_timeout_s = min(FAILOVER_TIMEOUT_S, max(1.0, lease_s * LEASE_SHARE))
        self._orders.update(response.get("orders") or [])
        self._orders.is_watched = response.get("watched") is True
        self._server.address.update(response.get("urls"))

    def _handle_refusal(self, refusal: RequestRefused) -> None:
        if refusal.code == "gap":
            self._spool.continue_from(int(refusal.problem["expected"]))
        elif refusal.is_rejection:
            self._orders.reject(refusal)
        elif not refusal.is_transient and self._first_sent is not None:
            self._isolate_refused_frame(self._first_sent, refusal)
        self._back_off(refusal.retry_after_s)

    def _isolate_refused_frame(self, first: int, refusal: RequestRefused) -> None:
        """Find the report (frame) that the server refuses, and replace it by a log line that says so.

        `first` is the number of the first frame in the refused request.

        After a first refusal, frames are sent one at a time. A frame that is still refused after MAX_REFUSALS more
        tries is replaced; otherwise it would block all later frames.
        """
        self._refusals += 1
        if self._refusals > MAX_REFUSALS:
            self._spool.replace_refused(first, str(refusal))

    def _back_off(self, at_least_s: float) -> None:
        self._server.address.wait(self._backoff.next_s(at_least_s))
        self._has_work = True
