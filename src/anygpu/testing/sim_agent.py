"""An agent in virtual time: it keeps the protocol, and everything around it may fail."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from anygpu.backends.contract import Launch
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
from anygpu.testing.faults import Fault
from anygpu.testing.process import ControlProcess
from anygpu.testing.provider import Machine, SimProvider
from anygpu.testing.records import AgentRecord, Frame
from anygpu.testing.sim_machine import Habitat
from anygpu.testing.sim_training import End, Trainer
from anygpu.testing.sim_upload import Uploader
from anygpu.testing.virtual import SimWake

T = TypeVar("T")
NOBODY = (Unauthorized, Forbidden, NotFound, Superseded, AlreadyClaimed)
DELIVER_S = 240.0
CLAIM_FOR_S = 300.0


class SimAgent:
    """A `Guest`. Claims, trains, reports, saves, ends; stops by itself when its lease is over."""

    def __init__(self, machine: Machine, launch: Launch, habitat: Habitat, provider: SimProvider) -> None:
        self.machine = machine
        self.provider = provider
        self.habitat = habitat
        self.record = AgentRecord(launch.name, machine.id)
        self.token = ""
        self.work: dict[str, Any] = {}
        self.grace_s = 0.0
        self.stopping: str = ""  # the outcome this will have, once something asks us to stop
        self.rejected = False
        self._dead = False
        self._delivering = False
        self.bell = SimWake(habitat.loop)  # interrupts the trainer
        self.uploader = Uploader(self)
        self._ticket = launch.ticket
        self._news = SimWake(habitat.loop)
        self._lease_until = float("inf")
        self._heartbeat_s = 5.0
        self._tasks: list[asyncio.Task[None]] = []
        habitat.records.append(self.record)

    # -- what the machine does to us ---------------------------------------------------------------------------

    def start(self) -> None:
        self._spawn(self._run())

    def kill(self) -> None:
        self._dead = True
        self._stopped_training()
        for task in self._tasks:
            task.cancel()

    def notice(self) -> None:
        """Some machines tell their agent; of others only the provider's list knows."""
        if self.work and self.habitat.faults.random.random() < 0.5:
            self.stop("stopped")

    def deliver(self) -> None:
        """A courier leaves at once when the agent still holds its lock."""
        if self._dead and self.work and not self._delivering:
            self._delivering = True
            self.habitat.loop.create_task(self._deliver())

    def stop(self, outcome: str) -> None:
        sternness = ["", "stopped", "timeout", "cancelled", "lease_lost"]
        if sternness.index(outcome) > sternness.index(self.stopping):
            self.stopping = outcome
            if outcome == "cancelled":
                self.provider.moment(self.machine, "cancelling", 4.0)
            self.bell.set("stop")

    # -- the story ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if await self._claim():
            self._spawn(self._send())
            self._spawn(self._keep_lease())
            self._spawn(self.uploader.run())
            end = await Trainer(self).run()
            self._stopped_training()
            await self._finish(end)
        self.provider.agent_left(self.machine)

    async def _claim(self) -> bool:
        claimant = self.habitat.chance.token(8)
        until = self.now() + CLAIM_FOR_S
        while self.now() < until:
            sent_at = self.now()
            try:
                answer = await self.call(lambda p: p.desk.claim(self._ticket, claimant, {"os": "sim"}))
            except NOBODY:
                return False
            except AnygpuError:
                await self.rest(3)
            else:
                self._take(answer, sent_at)
                return True
        return False

    def _take(self, answer: dict[str, Any], sent_at: float) -> None:
        self.token, self.work = answer["token"], answer["work"]
        self.grace_s = self.work["grace_s"]
        self._lease_until = sent_at + answer["lease_s"]
        self._heartbeat_s = answer["heartbeat_s"]
        record = self.record
        record.job_id, record.attempt = answer["job_id"], answer["attempt"]
        record.claimed_at, record.resume = self.habitat.loop.time(), self.work["resume"]
        self.habitat.trace(f"{self.machine.id} claimed {record.name}")

    async def _finish(self, end: End) -> None:
        until = self.now() + DELIVER_S
        if end.outcome not in ("cancelled", "lease_lost"):
            await self.uploader.drain(until)
        while self.now() < until and not self.rejected:
            waits = self.record.acked < len(self.record.frames)
            if waits and not self.habitat.faults.strikes(Fault.REORDERED):
                self._news.set("")
                await self.rest(1)
            elif await self._tell(end):
                return

    async def _tell(self, end: End) -> bool:
        body = end.body(last_seq=len(self.record.frames))
        try:
            await self.call(lambda p: p.desk.end(self.key(p), body))
        except ReportGap:
            await self.rest(1)  # the sender delivers what is missing
        except NOBODY:
            self.habitat.faults.note(Fault.ZOMBIE, f"{self.record.name} end")
            return True
        except AnygpuError as error:
            self._odd(error)
            await self.rest(3)
        else:
            self.record.end_acked = end.outcome if end.outcome != "agent_lost" else None
            self.habitat.trace(f"{self.record.name} told its end: {end.outcome}")
            return True
        return False

    async def _deliver(self) -> None:
        """What a courier does with the spool of a dead agent: evidence only, nothing is committed."""
        until = self.now() + DELIVER_S
        while self.now() < until and not self.rejected and self.record.end_acked is None:
            if self.record.acked >= len(self.record.frames):
                await self._tell(End(outcome="agent_lost"))
                return
            try:
                await self._say()
            except AnygpuError:
                await self.rest(3)

    # -- reporting ---------------------------------------------------------------------------------------------

    def frame(self, **content: Any) -> None:
        self.record.frames.append(Frame(len(self.record.frames) + 1, **content))
        self._news.set("")

    async def _send(self) -> None:
        pause_s = 1.0
        while not self.rejected:
            if self.record.acked >= len(self.record.frames):
                await self._news.wait(self._heartbeat_s)
            await self.awake()
            try:
                await self._say()
                pause_s = 1.0
            except ReportGap as gap:
                self._go_back(gap)
            except NOBODY:
                self.rejected = True
                self.stop("lease_lost")
            except AnygpuError as error:
                self._odd(error)
                await self.rest(pause_s)
                pause_s = min(8.0, pause_s * 2)

    async def _say(self) -> None:
        sent_at = self.now()
        if self.record.acked < len(self.record.frames):
            batch = self.record.batch(skip=self._skipped())
            answer = await self.call(lambda p: p.desk.report(self.key(p), batch))
            self.record.acked = max(self.record.acked, int(answer["acked"]))
        else:
            answer = await self.call(lambda p: p.desk.heartbeat(self.key(p)))
        self._heard(sent_at, answer)
        self.habitat.trouble(self)

    def _skipped(self) -> int:
        """Frames that overtake others on their way: the server must ask for those in between."""
        waiting = len(self.record.frames) - self.record.acked
        return 1 if waiting > 1 and self.habitat.faults.strikes(Fault.REORDERED) else 0

    def _heard(self, sent_at: float, answer: dict[str, Any]) -> None:
        self.record.heard_at.append(self.habitat.loop.time())
        self._lease_until = max(self._lease_until, sent_at + answer["lease_s"])
        for order in answer["orders"]:
            timed_out = order.get("reason") == "timeout"
            self.stop("cancelled" if order["kind"] == "cancel" else "timeout" if timed_out else "stopped")

    def _go_back(self, gap: ReportGap) -> None:
        expected = int(gap.details["expected"])
        if expected <= self.record.acked:
            self.record.went_back_to = expected
        self.record.acked = expected - 1

    def _odd(self, error: AnygpuError) -> None:
        if isinstance(error, Conflict):
            self.habitat.problem(f"{self.record.name} got {error!r}")

    async def _keep_lease(self) -> None:
        while self.now() < self._lease_until:
            await self.rest(self._lease_until - self.now())
        self.habitat.trace(f"{self.record.name} lost its lease")
        self.stop("lease_lost")

    # -- small things ------------------------------------------------------------------------------------------

    def key(self, process: ControlProcess) -> Any:
        return process.desk.authenticate(self.token)

    def now(self) -> float:
        """By the machine's own clock, which does not run while the machine stands still."""
        return self.habitat.loop.time() - self.machine.frozen_s

    async def call(self, invoke: Callable[[ControlProcess], Awaitable[T]]) -> T:
        try:
            answer = await self.habitat.call(self.machine, invoke)
        except AnygpuError:
            await self.awake()
            raise
        await self.awake()
        return answer

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.001))
        await self.awake()

    async def awake(self) -> None:
        if self.habitat.loop.time() < self.machine.paused_until:
            await asyncio.sleep(self.machine.paused_until - self.habitat.loop.time())

    def _stopped_training(self) -> None:
        if self.record.trained_from is not None and self.record.trained_until is None:
            self.record.trained_until = self.habitat.loop.time()

    def _spawn(self, story: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self.habitat.loop.create_task(story))
