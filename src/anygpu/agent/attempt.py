"""One attempt, from the claim to the end: prepare, train, finish."""

from __future__ import annotations

import os
import signal
import sys
import time

from anygpu.agent import delivery
from anygpu.agent.bring import Interrupted
from anygpu.agent.identity import identity
from anygpu.agent.lease import Lease
from anygpu.agent.loop import Loop, Wake
from anygpu.agent.orders import Orders, follow_orders
from anygpu.agent.output import Mask
from anygpu.agent.prepare import prepare
from anygpu.agent.process import CannotStart, Process
from anygpu.agent.report import Report
from anygpu.agent.sender import Sender
from anygpu.agent.spool import Spool
from anygpu.agent.steps import Steps
from anygpu.agent.training import Training
from anygpu.agent.wire import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.cache import Cache
    from anygpu.agent.home import Home
    from anygpu.agent.loop import Ending
    from anygpu.agent.notices import Notice
    from anygpu.agent.prepare import Prepared
    from anygpu.agent.wire import Place


class Attempt:
    """Holds what an attempt is made of; `run` is its story."""

    def __init__(
        self,
        home: Home,
        place: Place,
        assignment: Assignment,
        claimed_at: float,
        notices: str,
        claim_again: Callable[[], Assignment],
    ) -> None:
        self.home = home
        self._notices = notices
        self.claim_again = claim_again
        self.place = place
        self.assignment = assignment
        self.work = assignment.work
        self.wake = Wake()
        self.orders = Orders(self.wake)
        self.lease = Lease(claimed_at, assignment.lease_s)
        self.spool = Spool(home.spool, self.work.spool_limit_bytes)
        self.sender = Sender(self.server(), self.spool, self.lease, self.orders, assignment.heartbeat_s)
        self.report = Report(
            self.spool, assignment.report_every_s, self.work.log_frame_bytes, self.sender.wake
        )
        self.loop = Loop(self.report, self.orders, self.lease, self.wake, self.work.grace_s)
        self.mask = Mask(self.work.secrets.values())
        self.steps = Steps(int((self.work.resume or {}).get("step") or 0))

    @property
    def is_away(self) -> bool:
        """On a machine the server does not run on: what lies there cannot be taken for granted."""
        return self.place.moves

    def cache(self) -> Cache | None:
        """What this machine keeps for later attempts; a server's own machine has everything already."""
        if not self.is_away:
            return None

        from anygpu.agent.cache import of_this_machine

        return of_this_machine()

    def server(self) -> Server:
        """A connection of its own for each thread that asks for one."""
        return Server(self.place, self.assignment.token)

    def run(self) -> int:
        self._listen()
        try:
            job = prepare(self)
            training = Training(self, job.cwd)
            process = self._start(job)
        except CannotStart as error:
            self.report.line(self.mask.text(str(error)))
            return self._finish("failed_to_start", message=str(error))
        except Interrupted:
            assert self.loop.stop is not None
            return self._finish(self.loop.stop.outcome, message=self.loop.stop.reason)
        try:
            ending = training.watch(process)
            training.publish_results(ending)
        except Exception as error:
            return self._failed(process, error)
        return self._finish(*_told(ending, training.last_line()))

    def _failed(self, process: Process, error: Exception) -> int:
        """A fault of ours.

        Nothing is left running unwatched, and the server hears that this agent was lost.
        """
        process.kill()
        sys.excepthook(type(error), error, error.__traceback__)
        self.report.line(f"the agent failed: {error!r}")
        return self._finish("agent_lost", message=f"the agent failed: {error!r}")

    def _listen(self) -> None:
        if self.work.timeout_s is not None:
            self.loop.timeout_at = time.monotonic() + self.work.timeout_s
        self.loop.on_flag = self._raise_flag
        self.wake.on_signals()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.sender.start()
        follow_orders(self.server(), self.orders, self.lease, self.assignment.report_every_s)
        if self._notices:
            from anygpu.agent import notices

            notices.watch(self._notices, self._on_notice)

    def _start(self, job: Prepared) -> Process:
        """Written down before it is done: who finds this directory later knows that the job may have run."""
        self._write_down({"pid": None, "ends_with": job.ends_with})
        process = Process(job.argv, job.cwd, job.env, self.assignment.name, _held_fds(), job.ends_with)
        self.report.phase("training")
        try:
            self._write_down({**identity(process.pid), "ends_with": job.ends_with})
        except CannotStart:
            self.report.line("the disk is full; the job runs all the same")
        return process

    def _write_down(self, started: dict[str, Any]) -> None:
        try:
            self.home.write("process.json", started)
        except OSError as error:
            raise CannotStart(f"{self.home.path} cannot be written to: {error}") from error

    def _finish(
        self, outcome: str, exit_code: int | None = None, signal_number: int | None = None, message: str = ""
    ) -> int:
        """Everything is delivered before the end is told. What cannot be delivered stays in the spool."""
        self.report.flush()
        until = time.monotonic() + self.assignment.deliver_s
        if not self.sender.deliver_all(until):
            return delivery.UNTOLD if self.orders.rejection is None else delivery.NOBODY
        end = delivery.end_of(outcome, self.spool, exit_code, signal_number, self.mask.text(message))
        return delivery.tell_the_end(self.server(), end, until, self.home)

    def _raise_flag(self, reason: str) -> None:
        """What `anygpu.should_stop()` looks for."""
        try:
            with open(os.path.join(self.home.channel, "stop"), "w", encoding="utf-8") as file:
                file.write(reason)
        except OSError as error:
            self.report.line(f"should_stop() could not be set: {error}")

    def _on_notice(self, notice: Notice) -> None:
        """In the thread that watches for it; the loop acts on it."""
        self.loop.notice = notice
        self.wake()

    def _on_signal(self, number: int, frame: object) -> None:
        self.loop.signals += 1


def _told(ending: Ending, last_line: str) -> tuple[str, int | None, int | None, str]:
    """(outcome, exit code, signal, message)."""
    code = ending.code
    exit_code = code if code is not None and code >= 0 else None
    signal_number = -code if code is not None and code < 0 else None
    if ending.stop is not None:
        return ending.stop.outcome, exit_code, signal_number, ending.stop.reason
    return "exited", exit_code, signal_number, last_line if code else ""


def _held_fds() -> list[int]:
    """Locks on GPU slots.

    The job inherits them, so a slot is taken for as long as anything of the job lives.
    """
    named = os.environ.get("ANYGPU_HOLD_FDS", "")
    return [int(number) for number in named.split(",") if number.strip().isdigit()]
