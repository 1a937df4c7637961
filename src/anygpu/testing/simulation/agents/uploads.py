"""Checkpoint uploads of a simulated agent: begin, PUT, commit, and retries."""

import hashlib
from typing import Any

from anygpu.errors import AnygpuError, Forbidden, IncompleteUpload, NotFound, Superseded, Unauthorized
from anygpu.testing.simulation.agents.environment import AgentBase
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.virtual_time import SimWake

CHUNK_BYTES = 24


class SimUploader:
    """Uploads an agent's checkpoints in the background, one at a time and in the order of their steps."""

    def __init__(self, agent: AgentBase) -> None:
        self._agent = agent
        self._environment = agent.environment
        self._waiting: list[int] = []
        self._saved: set[int] = set()
        self._wake = SimWake(agent.environment.loop)
        self.busy = False

    @property
    def _reports(self) -> bool:
        return bool(self._agent.work["env"].get("SIM_REPORTS") == "True")

    def save(self, step: int) -> None:
        if step not in self._saved:
            self._saved.add(step)
            self._waiting.append(step)
            self._wake.set("save")

    async def drain(self, until: float) -> None:
        while (self._waiting or self.busy) and self._agent.now() < until and not self._should_stop:
            await self._agent.sleep(1)

    async def run(self) -> None:
        while not self._agent.rejected:
            await self._wake.wait(60)
            while self._waiting and not self._should_stop:
                self.busy = True
                await self._publish(self._waiting.pop(0))
                self.busy = False

    @property
    def _should_stop(self) -> bool:
        return self._agent.rejected or self._agent.stopping == "lease_lost"

    async def _publish(self, step: int) -> None:
        record = self._agent.record
        data = checkpoint_bytes(record.job_id, record.attempt, step)
        self._agent.provider.maybe_interrupt(self._agent.machine, "checkpointing")
        while not self._should_stop:
            try:
                checkpoint_id = await self._publish_once(step, data)
            except (Superseded, Unauthorized, Forbidden, NotFound):
                self._environment.faults.record(Fault.ZOMBIE, f"{record.name} checkpoint {step}")
                self._agent.rejected = True
                return self._agent.stop("lease_lost")
            except AnygpuError:
                await self._agent.sleep(2)
            else:
                record.saved.append((step, checkpoint_id))
                return None
        return None

    async def _publish_once(self, step: int, data: bytes) -> str:
        agent = self._agent
        pieces = {hashlib.sha256(piece).hexdigest(): piece for piece in _chunks(data)}
        body = {**_manifest(step, data), "unit": "step" if self._reports else ""}
        begun = await agent.call(lambda p: p.agent_service.begin_checkpoint(agent.key(p), body))
        lacking = begun["uploads"]
        while True:
            for upload in lacking:
                await self._environment.put(agent.machine, upload["url"], pieces[upload["sha256"]])
            try:
                await agent.call(lambda p: p.agent_service.commit_checkpoint(agent.key(p), begun["id"]))
            except IncompleteUpload as incomplete:
                lacking = incomplete.details["uploads"]
            else:
                return str(begun["id"])


def _chunks(data: bytes) -> list[bytes]:
    return [data[start : start + CHUNK_BYTES] for start in range(0, len(data), CHUNK_BYTES)]


def _manifest(step: int, data: bytes) -> dict[str, Any]:
    chunks = [{"size": len(piece), "sha256": hashlib.sha256(piece).hexdigest()} for piece in _chunks(data)]
    file = {
        "path": "last.pt",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "chunks": chunks,
    }
    return {"step": step, "at": 0.0, "world_size": 1, "files": [file]}


def checkpoint_bytes(job_id: str, attempt: int, step: int) -> bytes:
    """Return the content of a checkpoint: three chunks of `CHUNK_BYTES`.

    No two checkpoints share a chunk, so damage to one does not affect others.
    """
    pieces = (f"{step}|{attempt}|{number}|{job_id[-9:]}".ljust(CHUNK_BYTES, ".") for number in range(3))
    return "".join(pieces).encode()


def read_step(data: bytes) -> int:
    return int(data.split(b"|", 1)[0])
