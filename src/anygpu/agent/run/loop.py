"""The main loop: read the job's output, run periodic tasks, and stop the job when there is a reason to."""

from __future__ import annotations

import os
import select
import signal
import time

from anygpu.agent.link.orders import boot_clock
from anygpu.agent.run import stopping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from anygpu.agent.link.orders import AttemptLease, ServerOrders
    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.run.preemption import PreemptionNotice
    from anygpu.agent.run.process import JobProcess
    from anygpu.agent.run.stopping import StopRequest

READ_BYTES = 65536
POLL_S = 1.0
DRAIN_S = 2.0
OWN_SIGNAL_S = 0.5
TERM_CODES = (-signal.SIGTERM, 128 + signal.SIGTERM)
KILL_CODES = (-signal.SIGKILL, 128 + signal.SIGKILL)


class Interrupted(Exception):
    """Raised when the attempt must stop before the job has started."""

    def __init__(self, stop: StopRequest) -> None:
        self.stop = stop


class WakePipe:
    """A pipe that wakes the loop's `select`. Threads and signal handlers write to it."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()
        for end in (self.read_fd, self._write_fd):
            os.set_blocking(end, False)

    def __call__(self) -> None:
        try:
            os.write(self._write_fd, b"!")
        except BlockingIOError:
            return  # the pipe is full, so the loop wakes up anyway

    def on_signals(self) -> None:
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Wait until something wakes the loop, or until the time is over."""
        select.select([self.read_fd], [], [], seconds)
        self.clear()

    def clear(self) -> None:
        try:
            os.read(self.read_fd, 4096)
        except BlockingIOError:
            return


class LoopTask:
    """A periodic task. `run(now)` returns the time at which the task is due again."""

    __slots__ = ("next_at", "run")

    def __init__(self, do: Callable[[float], float], first_at: float) -> None:
        self.run = do
        self.next_at = first_at


class ProcessEnd:
    """The return code of a process, and the stop request if that is why the process ended."""

    __slots__ = ("not_uploaded", "return_code", "stop")

    def __init__(self, return_code: int | None, stop: StopRequest | None) -> None:
        self.return_code = return_code
        self.stop = stop
        self.not_uploaded = ""  # which results of a job that ended by itself could not be uploaded in time


class ProcessLoop:
    """Runs the set-up commands and then the job.

    An order from the server, an expired lease, the timeout or a preemption can stop each of them.
    """

    def __init__(
        self, reporter: Reporter, orders: ServerOrders, lease: AttemptLease, wake: WakePipe, grace_s: float
    ) -> None:
        self._reporter = reporter
        self._orders = orders
        self._lease = lease
        self._wake = wake
        self._grace_s = grace_s
        self.tasks: list[LoopTask] = []
        self.timeout_at: float | None = None
        self.stop: StopRequest | None = None
        self.signal_count = 0
        self.engine_signals = False  # SIGTERM comes from an engine that ends all processes of the attempt
        self.notice: PreemptionNotice | None = None
        self._woken = True
        self._poll_at = 0.0
        self.on_stop: Callable[[str], None] = lambda reason: None
        self.on_short_notice: Callable[[], None] = lambda: None

    def run(self, process: JobProcess, on_output: Callable[[bytes], None], saves: bool = True) -> ProcessEnd:
        """Run until the process and its children have ended and all their output is read.

        `saves`: the process may save its state when `should_stop()` becomes true, so it gets time before
        SIGTERM. If False, SIGTERM is sent at once.
        """
        pipe: int | None = process.pipe
        while not self._has_ended(process):
            if self._apply_stop(process, saves):
                break
            pipe = self._wait_and_read(pipe, on_output)
            self._run_due_tasks()
        if self.signal_count:
            self.check_stop()  # an engine that signals the agent and the job may end the job first
        process.kill_leftovers(self._leftover_grace_s())
        if pipe is not None:
            _drain(pipe, on_output)
        os.close(process.pipe)
        self._notice_own_signal(process.poll())
        return ProcessEnd(process.poll(), None if self._was_killed_by_others(process.poll()) else self.stop)

    def _was_killed_by_others(self, return_code: int | None) -> bool:
        """Return whether the process was killed, and not by the agent, while it stopped because of another node.

        If a process is killed, the nodes that lose their connections to it may fail and report that first. The server
        must learn which node was killed, since that node is the cause.
        """
        stop = self.stop
        if stop is None or stop.reason != stopping.PEER:
            return False
        return not stop.has_killed and return_code in KILL_CODES

    def _notice_own_signal(self, return_code: int | None) -> None:
        """Find out whether a process was killed because the engine ends the whole attempt.

        An engine sends SIGTERM to all processes at once. The job may end before the agent has received its own.
        """
        if self.stop is not None or return_code not in TERM_CODES:
            return
        until = time.monotonic() + (OWN_SIGNAL_S if self.engine_signals else 0.0)
        while not self.signal_count and time.monotonic() < until:
            time.sleep(0.01)
        if self.signal_count:
            self.check_stop()

    def _has_ended(self, process: JobProcess) -> bool:
        """Return whether the process has ended, and after SIGTERM also its children, which may save their state.

        Checks after each wake-up of the loop, and also once a second, in case a wake-up was missed.
        """
        now = time.monotonic()
        if not self._woken and now < self._poll_at:
            return False
        self._woken, self._poll_at = False, now + POLL_S
        if process.poll() is None:
            return False
        if self.stop is None or not self.stop.is_between_signals:
            return True
        process.terminate()  # children whose parent has not passed the signal on
        return not process.has_leftovers()

    def check_stop(self) -> StopRequest | None:
        """Return the current stop request, or None.

        A stop request is never withdrawn, but a more urgent reason to stop replaces it.
        """
        now = time.monotonic()
        request = self._stop_request(now)
        if request is not None and (self.stop is None or request.replaces(self.stop)):
            self.stop = request
            self._reporter.write_line(f"stopping the job: {stopping.describe_reason(request.reason)}")
            if request.publish_until is not None:
                self._reporter.flush()
        return self.stop

    def check_interrupted(self) -> None:
        """Raise `Interrupted` if the attempt must stop. Called during long preparation steps."""
        stop = self.check_stop()
        if stop is not None:
            raise Interrupted(stop)
        self._reporter.flush_when_due()

    def _leftover_grace_s(self) -> float:
        if self.stop is None or self.stop.publish_until is None:
            return self._grace_s
        return min(self._grace_s, max(0.0, self.stop.publish_until - time.monotonic()) / 10)

    def _stop_request(self, now: float) -> StopRequest | None:
        if self._orders.rejection is not None:
            return stopping.rejection_stop(now, self._grace_s, str(self._orders.rejection))
        if self._lease.has_expired(boot_clock()):
            return stopping.lost_lease_stop(now, self._grace_s)
        order = self._orders.current
        if self.notice is not None and (order is None or order["kind"] != "cancel"):
            return stopping.preemption_stop(now, self.notice)
        if order is not None:
            return stopping.order_stop(order, now, self._grace_s)
        if self.signal_count:
            return stopping.signal_stop(now, self._grace_s)
        if self.timeout_at is not None and now >= self.timeout_at:
            return stopping.timeout_stop(now, self._grace_s)
        return None

    def _apply_stop(self, process: JobProcess, saves: bool) -> bool:
        """Execute the steps of the stop request that are due, such as SIGTERM and SIGKILL.

        Return True if the process still runs long after SIGKILL, so that the loop must give up on it.
        """
        stop = self.check_stop()
        actions = stop.take_due(time.monotonic()) if stop is not None else []
        if stopping.FLAG in actions and stop is not None:
            self.on_stop(stop.reason)
            if stop.is_short_notice:
                self.on_short_notice()
        if stopping.TERM in actions or (stopping.FLAG in actions and not saves):
            process.terminate()
        if stopping.KILL in actions:
            process.kill()
        return stopping.ABANDON in actions

    def _wait_and_read(self, pipe: int | None, on_output: Callable[[bytes], None]) -> int | None:
        watched = [self._wake.read_fd] if pipe is None else [self._wake.read_fd, pipe]
        ready, _, _ = select.select(watched, [], [], self._select_timeout_s())
        if self._wake.read_fd in ready:
            self._wake.clear()
            self._woken = True
        if pipe is None or pipe not in ready:
            return pipe
        data = os.read(pipe, READ_BYTES)
        if data:
            on_output(data)
        return pipe if data else None

    def _select_timeout_s(self) -> float:
        now = time.monotonic()
        times = [now + POLL_S, *(task.next_at for task in self.tasks)]
        times += [at for at in (self._reporter.due_at, self.timeout_at) if at is not None]
        if self.stop is not None:
            times = [at for at in times if at != self.timeout_at]
            times += [self.stop.next_at] if self.stop.next_at is not None else []
        return max(0.0, min(times) - now)

    def _run_due_tasks(self) -> None:
        now = time.monotonic()
        for task in self.tasks:
            if task.next_at <= now:
                task.next_at = task.run(now)
        self._reporter.flush_when_due()


def _drain(pipe: int, on_output: Callable[[bytes], None]) -> None:
    """Read the output that is left in the pipe, without waiting for more.

    A process that survived may hold the pipe open, so the end of the pipe may never come.
    """
    until = time.monotonic() + DRAIN_S
    while time.monotonic() < until:
        try:
            data = os.read(pipe, READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        on_output(data)
