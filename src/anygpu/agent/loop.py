"""The main loop: reads the job's output, keeps the chores, and ends the job when that is asked."""

from __future__ import annotations

import os
import select
import signal
import time

from anygpu.agent import stopping
from anygpu.agent.lease import boot_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from anygpu.agent.lease import Lease
    from anygpu.agent.notices import Notice
    from anygpu.agent.orders import Orders
    from anygpu.agent.process import Process
    from anygpu.agent.report import Report
    from anygpu.agent.stopping import Stop

READ_BYTES = 65536
HOUSEKEEPING_S = 1.0
DRAIN_S = 2.0


class Wake:
    """A pipe to the loop's select: threads and signals write to it, so nothing has to be polled for."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        for end in (self.reading, self._writing):
            os.set_blocking(end, False)

    def __call__(self) -> None:
        try:
            os.write(self._writing, b"!")
        except BlockingIOError:
            return  # it is full, so the loop will wake anyway

    def on_signals(self) -> None:
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def clear(self) -> None:
        try:
            os.read(self.reading, 4096)
        except BlockingIOError:
            return


class Chore:
    """Something done now and then by the loop. It says itself when it wants to be done again."""

    __slots__ = ("do", "next_at")

    def __init__(self, do: Callable[[float], float], first_at: float) -> None:
        self.do = do
        self.next_at = first_at


class Ending:
    """How a process ended, and why, if we ended it."""

    __slots__ = ("code", "stop")

    def __init__(self, code: int | None, stop: Stop | None) -> None:
        self.code = code
        self.stop = stop


class Loop:
    """Runs one process after the other, the set-up's and the job's, under the same orders, lease and timeout."""

    def __init__(self, report: Report, orders: Orders, lease: Lease, wake: Wake, grace_s: float) -> None:
        self._report = report
        self._orders = orders
        self._lease = lease
        self._wake = wake
        self._grace_s = grace_s
        self.chores: list[Chore] = []
        self.timeout_at: float | None = None
        self.stop: Stop | None = None
        self.signals = 0
        self.notice: Notice | None = None
        self._woken = True
        self._ask_at = 0.0
        self.on_flag: Callable[[str], None] = lambda reason: None
        self.on_haste: Callable[[], None] = lambda: None

    def run(self, process: Process, take: Callable[[bytes], None], saves: bool = True) -> Ending:
        """Until the process has ended, its leftovers with it, and its output is read to the end.

        One that has nothing to save is not asked to stop first.
        """
        pipe: int | None = process.pipe
        while not self._has_ended(process):
            if self._act(process, saves):
                break
            pipe = self._wait_and_read(pipe, take)
            self._keep_chores()
        process.end_leftovers(self._leftover_grace_s())
        if pipe is not None:
            _drain(pipe, take)
        os.close(process.pipe)
        return Ending(process.poll(), self.stop)

    def _has_ended(self, process: Process) -> bool:
        """Asked of the system when a signal says that a child ended, and now and then in case one was missed."""
        now = time.monotonic()
        if not self._woken and now < self._ask_at:
            return False
        self._woken, self._ask_at = False, now + HOUSEKEEPING_S
        return process.poll() is not None

    def check(self) -> Stop | None:
        """What asks us to stop now, if anything does.

        The most urgent wins; once stopping, we do not go back.
        """
        now = time.monotonic()
        wanted = self._wanted(now)
        if wanted is not None and (self.stop is None or wanted.urgency > self.stop.urgency):
            self.stop = wanted
            self._report.line(f"ending the job: {wanted.reason}")
            if wanted.until is not None:
                self._report.flush()
        return self.stop

    def _leftover_grace_s(self) -> float:
        if self.stop is None or self.stop.until is None:
            return self._grace_s
        return min(self._grace_s, max(0.0, self.stop.until - time.monotonic()) / 10)

    def _wanted(self, now: float) -> Stop | None:
        if self._orders.rejection is not None:
            return stopping.by_rejection(now, self._grace_s, str(self._orders.rejection))
        if self._lease.is_over(boot_clock()):
            return stopping.by_lost_lease(now, self._grace_s)
        order = self._orders.wanted
        if self.notice is not None and (order is None or order["kind"] != "cancel"):
            return stopping.by_notice(now, self.notice)
        if order is not None:
            return stopping.by_order(order, now, self._grace_s)
        if self.signals:
            return stopping.by_signal(now, self._grace_s)
        if self.timeout_at is not None and now >= self.timeout_at:
            return stopping.by_timeout(now, self._grace_s)
        return None

    def _act(self, process: Process, saves: bool) -> bool:
        """True when even SIGKILL did not end it, and there is nothing more to do."""
        stop = self.check()
        actions = stop.due(time.monotonic()) if stop is not None else []
        if stopping.FLAG in actions and stop is not None:
            self.on_flag(stop.reason)
            if stop.in_haste:
                self.on_haste()
        if stopping.TERM in actions or (stopping.FLAG in actions and not saves):
            process.signal(signal.SIGTERM)
        if stopping.KILL in actions:
            process.kill()
        return stopping.ABANDON in actions

    def _wait_and_read(self, pipe: int | None, take: Callable[[bytes], None]) -> int | None:
        watched = [self._wake.reading] if pipe is None else [self._wake.reading, pipe]
        ready, _, _ = select.select(watched, [], [], self._patience_s())
        if self._wake.reading in ready:
            self._wake.clear()
            self._woken = True
        if pipe is None or pipe not in ready:
            return pipe
        data = os.read(pipe, READ_BYTES)
        if data:
            take(data)
        return pipe if data else None

    def _patience_s(self) -> float:
        now = time.monotonic()
        times = [now + HOUSEKEEPING_S, *(chore.next_at for chore in self.chores)]
        times += [at for at in (self._report.due_at, self.timeout_at) if at is not None]
        if self.stop is not None:
            times = [at for at in times if at != self.timeout_at]
            times += [self.stop.next_at] if self.stop.next_at is not None else []
        return max(0.0, min(times) - now)

    def _keep_chores(self) -> None:
        now = time.monotonic()
        for chore in self.chores:
            if chore.next_at <= now:
                chore.next_at = chore.do(now)
        self._report.flush_when_due()


def _drain(pipe: int, take: Callable[[bytes], None]) -> None:
    """What is still in the pipe. Only a process we may not end can hold it open, and it is not waited for."""
    until = time.monotonic() + DRAIN_S
    while time.monotonic() < until:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        take(data)
