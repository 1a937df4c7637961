"""One attempt, from the claim to the end: prepare, train, finish."""

from __future__ import annotations

import os
import signal
import sys
import time

from anygpu.agent import delivery
from anygpu.agent.attempt_dir import process_identity
from anygpu.agent.link.client import ServerClient
from anygpu.agent.link.orders import AttemptLease, ServerOrders, start_polling
from anygpu.agent.link.reporter import Reporter
from anygpu.agent.link.sender import ReportSender
from anygpu.agent.link.spool import Spool
from anygpu.agent.prepare.inputs import Interrupted
from anygpu.agent.prepare.steps import prepare
from anygpu.agent.run.loop import ProcessLoop, WakePipe
from anygpu.agent.run.metrics import StepHistory
from anygpu.agent.run.output import SecretMask
from anygpu.agent.run.process import CannotStart, JobProcess
from anygpu.agent.run.training import TrainingMonitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.link.client import ServerAddress
    from anygpu.agent.prepare.download import FileCache
    from anygpu.agent.prepare.steps import LaunchPlan
    from anygpu.agent.run.loop import ProcessEnd
    from anygpu.agent.run.preemption import PreemptionNotice


class AttemptRunner:
    """Holds what an attempt is made of; `run` is its story."""

    def __init__(
        self,
        attempt_dir: AttemptDir,
        address: ServerAddress,
        assignment: Assignment,
        claimed_at: float,
        notice_source: str,
        claim_again: Callable[[], Assignment],
    ) -> None:
        self.attempt_dir = attempt_dir
        self._notice_source = notice_source
        self.claim_again = claim_again
        self.address = address
        self.assignment = assignment
        self.job = assignment.job
        self.wake = WakePipe()
        self.orders = ServerOrders(self.wake)
        self.lease = AttemptLease(claimed_at, assignment.lease_s)
        self.spool = Spool(attempt_dir.spool_dir, self.job.spool_limit_bytes)
        self.sender = ReportSender(
            self.connect(), self.spool, self.lease, self.orders, assignment.heartbeat_s
        )
        self.reporter = Reporter(
            self.spool, assignment.report_every_s, self.job.log_frame_bytes, self.sender.wake
        )
        self.loop = ProcessLoop(self.reporter, self.orders, self.lease, self.wake, self.job.grace_s)
        self.mask = SecretMask(self.job.secrets.values())
        self.steps = StepHistory(int((self.job.resume or {}).get("step") or 0))

    @property
    def is_remote(self) -> bool:
        """On a machine the server does not run on: what lies there cannot be taken for granted."""
        return self.address.is_remote

    def cache(self) -> FileCache | None:
        """What this machine keeps for later attempts; a server's own machine has everything already."""
        if not self.is_remote:
            return None

        from anygpu.agent.prepare.download import machine_cache

        return machine_cache()

    def connect(self) -> ServerClient:
        """A connection of its own for each thread that asks for one."""
        return ServerClient(self.address, self.assignment.token)

    def run(self) -> int:
        self._start_threads()
        try:
            job = prepare(self)
            training = TrainingMonitor(self, job.cwd)
            process = self._start_job(job)
        except CannotStart as error:
            self.reporter.write_line(self.mask.mask_text(str(error)))
            return self._finish("failed_to_start", message=str(error))
        except Interrupted:
            assert self.loop.stop is not None
            return self._finish(self.loop.stop.outcome, message=self.loop.stop.reason)
        try:
            ending = training.run(process)
            training.publish_results(ending)
        except Exception as error:
            return self._fail(process, error)
        return self._finish(*_end_fields(ending, training.last_line()))

    def _fail(self, process: JobProcess, error: Exception) -> int:
        """A fault of ours.

        Nothing is left running unwatched, and the server hears that this agent was lost.
        """
        process.kill()
        sys.excepthook(type(error), error, error.__traceback__)
        self.reporter.write_line(f"the agent failed: {error!r}")
        return self._finish("agent_lost", message=f"the agent failed: {error!r}")

    def _start_threads(self) -> None:
        if self.job.timeout_s is not None:
            self.loop.timeout_at = time.monotonic() + self.job.timeout_s
        self.loop.on_stop = self._write_stop_flag
        self.wake.on_signals()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.sender.start()
        start_polling(self.connect(), self.orders, self.lease, self.assignment.report_every_s)
        if self._notice_source:
            from anygpu.agent.run import preemption

            preemption.watch_for_notice(self._notice_source, self._on_notice)

    def _start_job(self, job: LaunchPlan) -> JobProcess:
        """Written down before it is done: who finds this directory later knows that the job may have run."""
        self._record_process({"pid": None, "ends_with": job.kill_command})
        process = JobProcess(
            job.argv, job.cwd, job.env, self.assignment.name, _slot_lock_fds(), job.kill_command
        )
        self.reporter.start_phase("training")
        try:
            self._record_process({**process_identity(process.pid), "ends_with": job.kill_command})
        except CannotStart:
            self.reporter.write_line("the disk is full; the job runs all the same")
        return process

    def _record_process(self, started: dict[str, Any]) -> None:
        try:
            self.attempt_dir.write_json("process.json", started)
        except OSError as error:
            raise CannotStart(f"{self.attempt_dir.path} cannot be written to: {error}") from error

    def _finish(
        self, outcome: str, exit_code: int | None = None, signal_number: int | None = None, message: str = ""
    ) -> int:
        """Everything is delivered before the end is told. What cannot be delivered stays in the spool."""
        self.reporter.flush()
        until = time.monotonic() + self.assignment.deliver_s
        if not self.sender.deliver_all(until):
            return delivery.EXIT_UNDELIVERED if self.orders.rejection is None else delivery.EXIT_REJECTED
        end = delivery.end_message(
            outcome, self.spool, exit_code, signal_number, self.mask.mask_text(message)
        )
        return delivery.send_end(self.connect(), end, until, self.attempt_dir)

    def _write_stop_flag(self, reason: str) -> None:
        """What `anygpu.should_stop()` looks for."""
        try:
            with open(os.path.join(self.attempt_dir.channel_dir, "stop"), "w", encoding="utf-8") as file:
                file.write(reason)
        except OSError as error:
            self.reporter.write_line(f"should_stop() could not be set: {error}")

    def _on_notice(self, notice: PreemptionNotice) -> None:
        """In the thread that watches for it; the loop acts on it."""
        self.loop.notice = notice
        self.wake()

    def _on_signal(self, number: int, frame: object) -> None:
        self.loop.signal_count += 1


def _end_fields(ending: ProcessEnd, last_line: str) -> tuple[str, int | None, int | None, str]:
    """(outcome, exit code, signal, message)."""
    code = ending.return_code
    exit_code = code if code is not None and code >= 0 else None
    signal_number = -code if code is not None and code < 0 else None
    if ending.stop is not None:
        return ending.stop.outcome, exit_code, signal_number, ending.stop.reason
    return "exited", exit_code, signal_number, last_line if code else ""


def _slot_lock_fds() -> list[int]:
    """Locks on GPU slots.

    The job inherits them, so a slot is taken for as long as anything of the job lives.
    """
    named = os.environ.get("ANYGPU_HOLD_FDS", "")
    return [int(number) for number in named.split(",") if number.strip().isdigit()]
