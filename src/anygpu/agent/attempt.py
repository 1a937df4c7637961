"""Run one attempt: prepare the files and the environment, run the job, upload results, report the end."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from anygpu.agent import delivery, exit_codes
from anygpu.agent.attempt_dir import process_identity
from anygpu.agent.checkpoints.steps import StepHistory
from anygpu.agent.host import processes
from anygpu.agent.link.client import RequestRefused, ServerClient, retry_until
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.orders import AttemptLease, ServerOrders, boot_clock, start_polling
from anygpu.agent.link.reporter import Reporter
from anygpu.agent.link.sender import ReportSender
from anygpu.agent.link.spool import Spool
from anygpu.agent.prepare.download import InputDownloader
from anygpu.agent.prepare.installers import installer_variables, url_credentials
from anygpu.agent.prepare.steps import Preparation
from anygpu.agent.run.loop import Interrupted, ProcessLoop, WakePipe
from anygpu.agent.run.output import SecretMask
from anygpu.agent.run.process import CannotStart, JobProcess
from anygpu.agent.run.ranks import own_address, wait_for_nodes
from anygpu.agent.run.training import TrainingMonitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.link.client import ServerAddress
    from anygpu.agent.prepare.steps import LaunchPlan
    from anygpu.agent.run.loop import ProcessEnd
    from anygpu.agent.run.preemption import PreemptionNotice
    from anygpu.agent.run.ranks import MasterAddress


LEAVE_TIMEOUT_S = 10.0  # a notice may come only 30 seconds before the machine is taken away


class NoticeSources:
    """How the agent learns of a preemption: `provider` names a metadata service, "" for none.

    `sigterm_s`: the engine ends the agent this many seconds after it has sent SIGTERM. None: not known. `sigurg_s`: the
    engine's time limit ends the agent this many seconds after SIGURG. None: SIGURG has no meaning.
    """

    __slots__ = ("provider", "sigterm_s", "sigurg_s")

    def __init__(
        self, provider: str = "", sigterm_s: float | None = None, sigurg_s: float | None = None
    ) -> None:
        self.provider = provider
        self.sigterm_s = sigterm_s
        self.sigurg_s = sigurg_s


class AttemptRunner:
    """Runs one attempt, from its preparation until the server has received its end.

    Creates the objects that do the work (reporter, process loop, training monitor) and connects them. `run`
    returns the exit code of the agent.
    """

    def __init__(
        self,
        attempt_dir: AttemptDir,
        address: ServerAddress,
        assignment: Assignment,
        claimed_at: float,
        notices: NoticeSources,
        claim_again: Callable[[], Assignment],
        node_address: str = "",
    ) -> None:
        job = assignment.job
        self._attempt_dir = attempt_dir
        self._address = address
        self._assignment = assignment
        self._notices = notices
        self._claim_again = claim_again
        self._node_address = node_address
        self._wake = WakePipe()
        self._orders = ServerOrders(self._wake)
        self._lease = AttemptLease(claimed_at, assignment.lease_s)
        self._spool = Spool(attempt_dir.spool_dir, job.spool_limit_bytes)
        self._sender = ReportSender(
            self._connect(), self._spool, self._lease, self._orders, assignment.heartbeat_s
        )
        self._reporter = Reporter(
            self._spool,
            assignment.report_every_s,
            job.log_frame_bytes,
            self._sender.wake,
            is_watched=lambda: self._orders.is_watched,
        )
        self._reporter.has_metrics = job.ranks.node == 0
        self._loop = ProcessLoop(self._reporter, self._orders, self._lease, self._wake, job.grace_s)
        urls = (*installer_variables(os.environ).values(), *job.requirements)
        self._mask = SecretMask([*job.secrets.values(), *url_credentials(urls)])

    def run(self) -> int:
        processes.become_subreaper()
        self._start_threads()
        try:
            plan = self._prepare()
            training = self._training_monitor(plan)
            process = self._start_job(plan)
        except CannotStart as error:
            self._reporter.write_line(self._mask.mask_text(str(error)))
            return self._finish("failed_to_start", message=str(error))
        except Interrupted as interruption:
            return self._finish(interruption.stop.outcome, message=interruption.stop.reason)
        try:
            end = training.run(process)
            training.publish_results(end)
        except Exception as error:
            return self._fail(process, error)
        memory = training.memory_report(process) if end.stop is None and end.return_code else None
        return self._finish(*_end_fields(end, training.last_line()), memory=memory)

    def _start_threads(self) -> None:
        """Set the timeout and the signal handlers, and start the agent's threads.

        The threads send reports, poll the server for orders (cancel or stop the job), and watch for
        preemption notices.
        """
        timeout_s = self._assignment.job.timeout_s
        if timeout_s is not None:
            self._loop.timeout_at = time.monotonic() + timeout_s
        self._loop.on_stop = self._begin_stop
        self._loop.engine_signals = self._notices.sigterm_s is not None
        self._wake.on_signals()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if self._notices.sigurg_s is not None:
            signal.signal(signal.SIGURG, self._on_time_limit)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._sender.start()
        start_polling(self._connect(), self._orders, self._lease, self._assignment.report_every_s)
        if self._notices.provider:
            from anygpu.agent.run.preemption import watch_for_notice

            watch_for_notice(self._notices.provider, self._on_notice)

    def _prepare(self) -> LaunchPlan:
        downloader = InputDownloader(
            self._connect,
            fresh_url=lambda sha256: self._claim_again().url_for(sha256),
            use_cache=self._address.is_remote,
            check_interrupted=self._loop.check_interrupted,
        )
        preparation = Preparation(
            self._assignment,
            self._attempt_dir,
            self._reporter,
            self._mask,
            self._loop,
            downloader,
            is_remote=self._address.is_remote,
            meet_nodes=self._meet_nodes,
        )
        return preparation.run()

    def _server_url(self) -> str:
        """Return the server's URL; empty if the server is reached through a relay."""
        try:
            return self._address.url()
        except Unreachable:
            return ""

    def _meet_nodes(self, restored: bool | None) -> MasterAddress:
        """Wait until all nodes of the attempt are prepared. Return where their processes find each other.

        `restored`: whether the checkpoint was restored on this node; None if there is none.
        """
        self._reporter.flush()

        def report_missing(nodes: list[int]) -> None:
            listed = ", ".join(map(str, nodes[:10]))
            self._reporter.write_line(
                f"waiting for {len(nodes)} of {layout.nodes} nodes to be ready: {listed}"
            )
            self._reporter.flush()

        layout = self._assignment.job.ranks
        address = self._node_address or own_address(self._server_url())
        return wait_for_nodes(
            self._connect(), layout, address, restored, self._loop.check_interrupted, report_missing
        )

    def _training_monitor(self, plan: LaunchPlan) -> TrainingMonitor:
        steps = StepHistory(plan.restored_step or 0, self._reporter.update_progress)
        if self._assignment.job.resume and plan.restored_step is None:
            steps.record(0)  # the checkpoint could not be restored, so training starts from the beginning
            steps.record(0, unit="epoch")
        return TrainingMonitor(
            self._assignment,
            self._attempt_dir,
            plan.directories,
            self._reporter,
            self._mask,
            steps,
            self._loop,
            self._orders,
            self._connect,
        )

    def _start_job(self, plan: LaunchPlan) -> JobProcess:
        """Start the job's process.

        process.json is written first. An agent that is started later in the same directory then knows that
        the job may have run.
        """
        self._record_process({"pid": None, "ends_with": plan.kill_command})
        process = JobProcess(
            plan.argv,
            plan.directories.cwd,
            plan.env,
            self._assignment.name,
            _slot_lock_fds(),
            plan.kill_command,
        )
        self._reporter.start_phase("training")
        try:
            self._record_process({**process_identity(process.pid), "ends_with": plan.kill_command})
        except CannotStart:
            self._reporter.write_line(
                "The agent cannot write to its directory on this machine; the job runs anyway. Check whether the "
                "disk is full."
            )
        return process

    def _record_process(self, started: dict[str, Any]) -> None:
        try:
            self._attempt_dir.write_json("process.json", started)
        except OSError as error:
            raise CannotStart(
                f"the agent cannot write to {self._attempt_dir.path}: {error}. "
                "Check the free disk space and the permissions on the machine."
            ) from error

    def _fail(self, process: JobProcess, error: Exception) -> int:
        """Handle an unexpected error in the agent: kill the job and report the outcome `agent_lost`."""
        process.kill()
        sys.excepthook(type(error), error, error.__traceback__)
        self._reporter.write_line(f"the agent failed: {error!r}")
        return self._finish(delivery.AGENT_LOST, message=f"the agent failed: {error!r}")

    def _finish(
        self,
        outcome: str,
        exit_code: int | None = None,
        signal_number: int | None = None,
        message: str = "",
        memory: dict[str, Any] | None = None,
    ) -> int:
        """Send all reports and then the end of the attempt to the server. Return the agent's exit code.

        Reports that cannot be sent in time stay on disk (in the spool).
        """
        self._reporter.flush()
        deadline = time.monotonic() + self._assignment.deliver_s
        if not self._sender.deliver_all(deadline):
            return exit_codes.UNDELIVERED if self._orders.rejection is None else exit_codes.REJECTED
        end = delivery.end_message(
            outcome, self._spool, exit_code, signal_number, self._mask.mask_text(message), memory
        )
        return delivery.send_end(
            self._connect(), end, deadline, self._attempt_dir, self._wait_for_end_of_nodes
        )

    def _wait_for_end_of_nodes(self) -> None:
        """Stay until the attempt has ended on all nodes, because other nodes of it still run.

        If this agent exited before, its machine would count as lost. The thread that polls for orders renews the lease.
        """
        while self._orders.rejection is None and not self._lease.has_expired(boot_clock()):
            if self._orders.has_attempt_ended or self._loop.signal_count > 1:
                return
            self._wake.wait(1.0)

    def _connect(self) -> ServerClient:
        """Return a new connection to the server. Each thread needs its own."""
        return ServerClient(self._address, self._assignment.token)

    def _begin_stop(self, reason: str) -> None:
        stop = self._loop.stop
        if stop is not None and self._assignment.job.ranks.nodes > 1 and self._orders.current is None:
            departure = {"message": reason, **({"reason": "timeout"} if stop.outcome == "timeout" else {})}
            arguments = (departure, stop.last_at)
            threading.Thread(target=self._announce_departure, args=arguments, daemon=True).start()
        self._write_stop_flag(reason)

    def _announce_departure(self, departure: dict[str, str], until: float) -> None:
        """Tell the server that this node is stopping, so that the other nodes save and stop too.

        If the server cannot be reached, try again until `until` (monotonic).
        """
        server = self._connect()
        with contextlib.suppress(Unreachable, RequestRefused):
            retry_until(
                lambda: server.call("POST", "/agent/v1/leave", departure, timeout_s=LEAVE_TIMEOUT_S),
                until,
                self._address.wait,
            )

    def _write_stop_flag(self, reason: str) -> None:
        """Write the stop file. While it exists, `anygpu.should_stop()` returns True."""
        try:
            # The script owns the directory: a pipe or a link at this path must not block or mislead the agent.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(os.path.join(self._attempt_dir.channel_dir, "stop"), flags, 0o600)
            with open(fd, "w", encoding="utf-8") as file:
                file.write(reason)
        except OSError as error:
            self._reporter.write_line(
                f"the script cannot see the stop request (anygpu.should_stop()): {error}"
            )

    def _on_notice(self, notice: PreemptionNotice) -> None:
        """Pass a preemption notice to the main loop. Called in the thread that polls for notices."""
        self._loop.notice = notice
        self._wake()

    def _on_signal(self, number: int, frame: object) -> None:
        self._loop.signal_count += 1
        if number == signal.SIGTERM and self._notices.sigterm_s is not None:
            self._add_notice(self._notices.sigterm_s, "the engine sent SIGTERM")

    def _on_time_limit(self, number: int, frame: object) -> None:
        assert self._notices.sigurg_s is not None
        self._add_notice(self._notices.sigurg_s, "the engine's time limit approaches")

    def _add_notice(self, seconds_left: float, source: str) -> None:
        """Remember a notice, unless an earlier one says that the machine ends before."""
        from anygpu.agent.run.preemption import PreemptionNotice

        notice, known = PreemptionNotice(seconds_left, source), self._loop.notice
        if known is None or notice.at < known.at:
            self._loop.notice = notice


def _end_fields(end: ProcessEnd, last_line: str) -> tuple[str, int | None, int | None, str]:
    """Return (outcome, exit code, signal number, message) of an ended job, for the end report."""
    code = end.return_code
    exit_code = code if code is not None and code >= 0 else None
    signal_number = -code if code is not None and code < 0 else None
    if end.stop is not None:
        return end.stop.outcome, exit_code, signal_number, end.stop.reason
    if code == 0 and end.not_uploaded:
        return delivery.RESULTS_MISSING, exit_code, signal_number, end.not_uploaded
    return "exited", exit_code, signal_number, last_line if code else ""


def _slot_lock_fds() -> list[int]:
    """Return the file descriptors of the locks on the attempt's GPUs and CPUs, which the agent inherited.

    The job inherits them too, so the GPUs and CPUs stay reserved as long as any process of the job runs.
    """
    numbers = os.environ.get("ANYGPU_HOLD_FDS", "")
    return [int(number) for number in numbers.split(",") if number.strip().isdigit()]
