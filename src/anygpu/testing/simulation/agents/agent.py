"""A simulated agent in virtual time that follows the agent protocol."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from anygpu.backends.contract import LaunchRequest
from anygpu.errors import (
    AlreadyClaimed,
    AnygpuError,
    Conflict,
    Forbidden,
    NotFound,
    ReportGap,
    Superseded,
    Unauthorized,
)
from anygpu.testing.simulation.agents.environment import AgentBase, AgentEnvironment
from anygpu.testing.simulation.agents.training import SimTrainer, TrainingEnd
from anygpu.testing.simulation.agents.uploads import SimUploader
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider

T = TypeVar("T")
REJECTIONS = (Unauthorized, Forbidden, NotFound, Superseded, AlreadyClaimed)
DELIVER_S = 240.0
CLAIM_FOR_S = 300.0


class SimAgent(AgentBase):
    """A simulated agent: claims an attempt, trains, sends reports, saves checkpoints and ends.

    If the lease of its attempt expires, the agent stops the training by itself.
    """

    def __init__(
        self, machine: SimMachine, launch: LaunchRequest, environment: AgentEnvironment, provider: SimProvider
    ) -> None:
        super().__init__(machine, launch, environment, provider)
        self._dead = False
        self._delivering = False
        self._uploader = SimUploader(self)
        self._ticket = launch.ticket
        self._lease_until = float("inf")
        self._heartbeat_s = 5.0
        self._waits = False  # for the other nodes of the attempt to end
        self._tasks: list[asyncio.Task[None]] = []
        environment.records.append(self.record)

    # -- called by the machine ---------------------------------------------------------------------------------

    def start(self) -> None:
        self._start_task(self._run())

    def kill(self) -> None:
        self._dead = True
        self._record_training_end()
        for task in self._tasks:
            task.cancel()

    def notice(self) -> None:
        """Stop because of a preemption notice. Half of the notices, at random, do not reach the agent."""
        if self.work and self.environment.faults.random.random() < 0.5:
            self.stop("stopped")
            if self.record.nodes > 1:
                self._start_task(self._leave())

    async def _leave(self) -> None:
        """Tell the server that this node stops, so that the others stop too. The message may be lost."""
        with contextlib.suppress(AnygpuError):
            await self.call(lambda p: p.agent_service.leave(self.key(p), {"message": "notice"}))

    def deliver(self) -> None:
        """Send the reports that a dead agent left in its spool. Do nothing while the agent is alive."""
        if self._dead and self.work and not self._delivering:
            self._delivering = True
            self.environment.loop.create_task(self._deliver())

    # -- main flow ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if await self._claim():
            self._start_task(self._send())
            self._start_task(self._keep_lease())
            self._start_task(self._uploader.run())
            end = await SimTrainer(self, self._uploader).run()
            self.record.succeeded = end.outcome == "exited" and end.exit_code == 0
            self._record_training_end()
            await self._finish(end)
            await self._wait_for_nodes()
        self.provider.agent_exited(self.machine)

    async def _claim(self) -> bool:
        claimant = self.machine.claimant = self.machine.claimant or self.environment.randomness.token(8)
        until = self.now() + CLAIM_FOR_S
        while self.now() < until:
            sent_at = self.now()
            try:
                answer = await self.call(
                    lambda p: p.agent_service.claim(self._ticket, claimant, {"os": "sim"}, self.machine.node)
                )
            except REJECTIONS:
                return False
            except AnygpuError:
                await self.sleep(3)
            else:
                self._accept_work(answer, sent_at)
                return True
        return False

    def _accept_work(self, answer: dict[str, Any], sent_at: float) -> None:
        self.token, self.work = answer["token"], answer["work"]
        self.grace_s = self.work["grace_s"]
        self._lease_until = sent_at + answer["lease_s"]
        self._heartbeat_s = answer["heartbeat_s"]
        record = self.record
        record.job_id, record.attempt = answer["job_id"], answer["attempt"]
        ranks = self.work.get("ranks") or {}
        record.node, record.nodes = self.machine.node, int(ranks.get("nodes", 1))
        record.claimed_at, record.resume = self.environment.loop.time(), self.work["resume"]
        self.environment.trace(f"{self.machine.id} claimed {record.name}")

    async def _finish(self, end: TrainingEnd) -> None:
        until = self.now() + DELIVER_S
        if end.outcome not in ("cancelled", "lease_lost"):
            await self._uploader.drain(until)
        while self.now() < until and not self.rejected:
            waits = self.record.acked < len(self.record.frames)
            if waits and not self.environment.faults.occurs(Fault.REORDERED):
                self.sender_wake.set("")
                await self.sleep(1)
            elif await self._report_end(end):
                return

    async def _wait_for_nodes(self) -> None:
        """Stay until the attempt has ended on all nodes; the sender renews the lease meanwhile."""
        while self._waits and self.stopping != "lease_lost" and not self.rejected:
            await self.sleep(2)

    async def _report_end(self, end: TrainingEnd) -> bool:
        body = end.body(last_seq=len(self.record.frames))
        try:
            answer = await self.call(lambda p: p.agent_service.end(self.key(p), body))
        except ReportGap:
            await self.sleep(1)  # until then the missing frames are sent
        except REJECTIONS:
            self.environment.faults.record(Fault.ZOMBIE, f"{self.record.name} end")
            return True
        except AnygpuError as error:
            self._report_conflict(error)
            await self.sleep(3)
        else:
            self.record.end_acked = end.outcome if end.outcome != "agent_lost" else None
            self._waits = bool(answer.get("wait"))
            if end.outcome == "exited" and end.exit_code != 0:
                self.record.failed_at = self.environment.loop.time()
            self.environment.trace(f"{self.record.name} told its end: {end.outcome}")
            return True
        return False

    async def _deliver(self) -> None:
        """Send the reports that a dead agent left in its spool, then report its end with the outcome `agent_lost`."""
        until = self.now() + DELIVER_S
        while self.now() < until and not self.rejected and self.record.end_acked is None:
            if self.record.acked >= len(self.record.frames):
                await self._report_end(TrainingEnd(outcome="agent_lost"))
                return
            try:
                await self._report_or_beat()
            except AnygpuError:
                await self.sleep(3)

    # -- reporting ---------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        pause_s = 1.0
        while not self.rejected:
            if self.record.acked >= len(self.record.frames):
                await self.sender_wake.wait(self._heartbeat_s)
            await self.wait_while_paused()
            try:
                await self._report_or_beat()
                pause_s = 1.0
            except ReportGap as gap:
                self._go_back(gap)
            except REJECTIONS:
                self.rejected = True
                self.stop("lease_lost")
            except AnygpuError as error:
                self._report_conflict(error)
                await self.sleep(pause_s)
                pause_s = min(8.0, pause_s * 2)

    async def _report_or_beat(self) -> None:
        sent_at = self.now()
        if self.record.acked < len(self.record.frames):
            batch = self.record.batch(skip=self._frames_to_skip())
            answer = await self.call(lambda p: p.agent_service.report(self.key(p), batch))
            self.record.acked = max(self.record.acked, int(answer["acked"]))
        else:
            answer = await self.call(lambda p: p.agent_service.heartbeat(self.key(p)))
        self._handle_answer(sent_at, answer)
        self.environment.maybe_disturb(self.machine, self.record)

    def _frames_to_skip(self) -> int:
        """Return how many frames (records of the spool) to leave out of the next batch, to simulate reordering.

        The server then asks for the missing frames with ReportGap.
        """
        waiting = len(self.record.frames) - self.record.acked
        return 1 if waiting > 1 and self.environment.faults.occurs(Fault.REORDERED) else 0

    def _handle_answer(self, sent_at: float, answer: dict[str, Any]) -> None:
        self.record.answered_at.append(self.environment.loop.time())
        self._lease_until = max(self._lease_until, sent_at + answer["lease_s"])
        for order in answer["orders"]:
            timed_out = order.get("reason") == "timeout"
            self._waits = self._waits and order.get("reason") != "ended"
            if order.get("reason") == "peer" and not self.stopping:
                self.stop_message = "peer"
            self.stop("cancelled" if order["kind"] == "cancel" else "timeout" if timed_out else "stopped")

    def _go_back(self, gap: ReportGap) -> None:
        expected = int(gap.details["expected"])
        if expected <= self.record.acked:
            self.record.went_back_to = expected
        self.record.acked = expected - 1

    def _report_conflict(self, error: AnygpuError) -> None:
        if isinstance(error, Conflict):
            self.environment.problem(f"{self.record.name} got {error!r}")

    async def _keep_lease(self) -> None:
        while self.now() < self._lease_until:
            await self.sleep(self._lease_until - self.now())
        self.environment.trace(f"{self.record.name} lost its lease")
        self.stop("lease_lost")

    def _record_training_end(self) -> None:
        if self.record.trained_from is not None and self.record.trained_until is None:
            self.record.trained_until = self.environment.loop.time()

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self.environment.loop.create_task(coroutine))
