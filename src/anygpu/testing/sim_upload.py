"""How a simulated agent saves checkpoints: begin, PUT, commit, again until it is published or pointless."""

import hashlib
from typing import TYPE_CHECKING, Any

from anygpu.errors import AnygpuError, Forbidden, IncompleteUpload, NotFound, Superseded, Unauthorized
from anygpu.testing.faults import Fault
from anygpu.testing.sim_training import PIECE, checkpoint_bytes
from anygpu.testing.virtual import SimWake

if TYPE_CHECKING:
    from anygpu.testing.sim_agent import SimAgent


class Uploader:
    """Works in the background, one checkpoint at a time, in order."""

    def __init__(self, agent: "SimAgent") -> None:
        self._agent = agent
        self._habitat = agent.habitat
        self._waiting: list[int] = []
        self._saved: set[int] = set()
        self._bell = SimWake(agent.habitat.loop)
        self.busy = False

    def save(self, step: int) -> None:
        if step not in self._saved:
            self._saved.add(step)
            self._waiting.append(step)
            self._bell.set("save")

    async def drain(self, until: float) -> None:
        while (self._waiting or self.busy) and self._agent.now() < until and not self._pointless:
            await self._agent.rest(1)

    async def run(self) -> None:
        while not self._agent.rejected:
            await self._bell.wait(60)
            while self._waiting and not self._pointless:
                self.busy = True
                await self._publish(self._waiting.pop(0))
                self.busy = False

    @property
    def _pointless(self) -> bool:
        return self._agent.rejected or self._agent.stopping == "lease_lost"

    async def _publish(self, step: int) -> None:
        record = self._agent.record
        data = checkpoint_bytes(record.job_id, record.attempt, step)
        self._agent.provider.moment(self._agent.machine, "checkpointing")
        while not self._pointless:
            try:
                checkpoint_id = await self._once(step, data)
            except (Superseded, Unauthorized, Forbidden, NotFound):
                self._habitat.faults.note(Fault.ZOMBIE, f"{record.name} checkpoint {step}")
                self._agent.rejected = True
                return self._agent.stop("lease_lost")
            except AnygpuError:
                await self._agent.rest(2)
            else:
                record.saved.append((step, checkpoint_id))
                return None
        return None

    async def _once(self, step: int, data: bytes) -> str:
        agent = self._agent
        pieces = {hashlib.sha256(piece).hexdigest(): piece for piece in _cut(data)}
        body = _manifest(step, data)
        begun = await agent.call(lambda p: p.desk.begin_checkpoint(agent.key(p), body))
        lacking = begun["uploads"]
        while True:
            for upload in lacking:
                await self._habitat.put(agent.machine, upload["url"], pieces[upload["sha256"]])
            try:
                await agent.call(lambda p: p.desk.commit_checkpoint(agent.key(p), begun["id"]))
            except IncompleteUpload as incomplete:
                lacking = incomplete.details["uploads"]
            else:
                return str(begun["id"])


def _cut(data: bytes) -> list[bytes]:
    return [data[start : start + PIECE] for start in range(0, len(data), PIECE)]


def _manifest(step: int, data: bytes) -> dict[str, Any]:
    chunks = [{"size": len(piece), "sha256": hashlib.sha256(piece).hexdigest()} for piece in _cut(data)]
    file = {
        "path": "last.pt",
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "chunks": chunks,
    }
    return {"step": step, "at": 0.0, "world_size": 1, "files": [file]}
