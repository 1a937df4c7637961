"""A simulation of the user's script, which a simulated agent runs: steps, checkpoints and exit."""

import hashlib
from dataclasses import dataclass
from typing import Any

from anygpu.errors import AnygpuError, BlobMissing
from anygpu.store.reports import MetricPoint
from anygpu.testing.simulation.agents.environment import AgentBase
from anygpu.testing.simulation.agents.uploads import SimUploader, read_step


@dataclass(frozen=True, slots=True, kw_only=True)
class SimScript:
    """The behaviour of a simulated script, passed to the agent in environment variables."""

    steps: int = 4
    step_s: float = 8.0
    save_every: int = 2
    fails_at: int = 0  # exit 1 at this step
    killed_at: int = 0  # SIGKILL at this step, in the first attempt only
    ends: bool = True
    tells: bool = False  # reports the total number of steps, which allows predictions
    resumes: bool = True  # continues from the restored checkpoint
    reports: bool = True  # states its steps
    notices_peers: bool = True  # fails when it loses the connection to another node

    def env(self) -> dict[str, str]:
        return {f"SIM_{name.upper()}": repr(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def read(cls, env: dict[str, str]) -> "SimScript":
        steps, save_every = int(env["SIM_STEPS"]), int(env["SIM_SAVE_EVERY"])
        return cls(
            steps=steps,
            step_s=float(env["SIM_STEP_S"]),
            save_every=save_every,
            fails_at=int(env["SIM_FAILS_AT"]),
            killed_at=int(env["SIM_KILLED_AT"]),
            ends=env["SIM_ENDS"] == "True",
            tells=env["SIM_TELLS"] == "True",
            resumes=env["SIM_RESUMES"] == "True",
            reports=env["SIM_REPORTS"] == "True",
            notices_peers=env["SIM_NOTICES_PEERS"] == "True",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEnd:
    """How the user's process ended."""

    outcome: str
    exit_code: int | None = None
    signal: int | None = None
    step: int = 0
    message: str = ""

    def body(self, *, last_seq: int) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "message": self.message,
            "last_seq": last_seq,
            "step": self.step,
        }


class SimTrainer:
    """Runs one simulated script, starting from the checkpoint in the assignment if there is one."""

    def __init__(self, agent: AgentBase, uploader: SimUploader) -> None:
        self._agent = agent
        self._uploader = uploader
        self._environment = agent.environment
        self._script = SimScript.read(agent.work["env"])
        self._step = 0
        self._timeout_at = float("inf")

    async def run(self) -> TrainingEnd:
        self._agent.add_frame(phase="preparing")
        await self._restore()
        await self._wait_for_nodes()
        if self._agent.stopping:
            return self._stopped()
        self._agent.record.trained_from = self._environment.loop.time()
        self._agent.record.began_after = self._step
        self._agent.add_frame(phase="training")
        if self._agent.work["timeout_s"] is not None:
            self._timeout_at = self._agent.now() + self._agent.work["timeout_s"]
        return await self._train()

    async def _train(self) -> TrainingEnd:
        script = self._script
        while self._step < script.steps or not script.ends:
            if await self._wait_step(script.step_s):
                return await self._stop()
            if self._has_lost_peer():
                return TrainingEnd(outcome="exited", exit_code=1, step=self._step)
            self._take_a_step()
            if self._step == script.fails_at and self._is_last_node:
                return TrainingEnd(outcome="exited", exit_code=1, step=self._step)
            if self._step == script.killed_at and self._is_last_node and self._agent.record.attempt == 1:
                return TrainingEnd(outcome="exited", signal=9, step=self._step)
        return TrainingEnd(outcome="exited", exit_code=0, step=self._step)

    def _take_a_step(self) -> None:
        self._step += 1
        at = self._agent.now()
        self._agent.add_frame(log=b"step %d of attempt %d\n" % (self._step, self._agent.record.attempt))
        if self._is_first_node:
            self._agent.add_frame(point=MetricPoint("loss", self._step, at, 1 / self._step))
        if self._script.reports and self._is_first_node:
            self._agent.add_frame(progress=self._progress())
        self._agent.provider.maybe_interrupt(self._agent.machine, "training", 0.5)
        if self._step % self._script.save_every == 0 and self._is_first_node:
            self._uploader.save(self._step)

    def _progress(self) -> dict[str, int]:
        first = {"first_step": (self._agent.record.began_after or 0) + 1}
        return {**first, "step": self._step, "steps": self._script.steps} if self._script.tells else first

    async def _wait_step(self, seconds: float) -> bool:
        until = self._agent.now() + seconds
        while self._agent.now() < until and not self._agent.stopping:
            await self._agent.trainer_wake.wait(until - self._agent.now() + 0.001)
            await self._agent.wait_while_paused()
            if self._agent.now() >= self._timeout_at:
                self._agent.stop("timeout")
        return bool(self._agent.stopping)

    async def _stop(self) -> TrainingEnd:
        """End the script within the grace period.

        If it was stopped or timed out, save a last checkpoint first.
        """
        outcome = self._agent.stopping
        if outcome in ("stopped", "timeout") and self._step and self._is_first_node:
            self._uploader.save(self._step)
        await self._agent.sleep(self._environment.faults.uniform(0, self._agent.grace_s))
        return TrainingEnd(outcome=outcome, step=self._step, message=self._agent.stop_message)

    def _stopped(self) -> TrainingEnd:
        return TrainingEnd(outcome=self._agent.stopping, step=self._step, message=self._agent.stop_message)

    @property
    def _is_first_node(self) -> bool:
        return self._agent.record.node == 0

    @property
    def _is_last_node(self) -> bool:
        """Whether the script fails on this node, if it fails: on one machine, or on one of several."""
        return self._agent.record.node == self._agent.record.nodes - 1

    async def _wait_for_nodes(self) -> None:
        """Wait until all nodes of the attempt are ready."""
        record = self._agent.record
        body: dict[str, Any] = {"address": f"10.0.0.{record.node}", "port": 4000}
        if self._agent.work["resume"] is not None:
            body["restored"] = record.restored_step is not None
        while record.nodes > 1 and not self._agent.stopping:
            if record.ready_at is None:
                record.ready_at = self._environment.loop.time()
            try:
                answer = await self._agent.call(lambda p: p.agent_service.ready(self._agent.key(p), body))
            except AnygpuError:
                await self._agent.sleep(3)
                continue
            if answer["start"]:
                return
            await self._agent.sleep(1)

    def _has_lost_peer(self) -> bool:
        """Return whether a process on another node has ended without success, so that connections to it are lost."""
        mine = self._agent.record
        return self._script.notices_peers and any(
            peer.trained_until is not None and not peer.succeeded
            for peer in self._environment.records
            if peer.name == mine.name and peer.node != mine.node
        )

    async def _restore(self) -> None:
        """Download the checkpoint. If it is damaged, start from the beginning."""
        resume = self._agent.work["resume"]
        while resume is not None and not self._agent.stopping:
            try:
                data = b"".join([await self._fetch(chunk) for chunk in resume["files"][0]["chunks"]])
            except (BlobMissing, ValueError):
                return
            except AnygpuError:
                await self._agent.sleep(3)
            else:
                self._agent.record.restored_step = read_step(data)
                self._step = self._agent.record.restored_step if self._script.resumes else 0
                return

    async def _fetch(self, chunk: dict[str, Any]) -> bytes:
        data = await self._environment.get(self._agent.machine, chunk["url"])
        if hashlib.sha256(data).hexdigest() != chunk["sha256"]:
            raise ValueError("damaged")
        return data
