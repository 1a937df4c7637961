"""What simulated agents and clients wrote down for themselves: the witnesses the invariants are checked against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anygpu.store.evidence import Batch, Point


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of an agent's spool."""

    seq: int
    log: bytes = b""
    point: Point | None = None
    phase: str = ""
    progress: Mapping[str, Any] | None = None


@dataclass(slots=True)
class AgentRecord:
    """One agent's own story."""

    name: str  # of the attempt
    machine: str
    job_id: str = ""
    attempt: int = 0
    claimed_at: float | None = None
    resume: Mapping[str, Any] | None = None
    restored_step: int | None = None  # what the restored bytes say, not what we were told
    frames: list[Frame] = field(default_factory=list)
    acked: int = 0
    went_back_to: int | None = None  # the server asked for frames it had acknowledged
    trained_from: float | None = None
    trained_until: float | None = None
    stood_still: bool = False
    heard_at: list[float] = field(default_factory=list)  # every answer it got
    saved: list[tuple[int, str]] = field(default_factory=list)  # acknowledged checkpoints: step, id
    end_acked: str | None = None

    @property
    def log(self) -> bytes:
        return b"".join(frame.log for frame in self.frames)

    @property
    def points(self) -> list[Point]:
        return [frame.point for frame in self.frames if frame.point is not None]

    def batch(self, *, skip: int = 0, most: int = 20) -> Batch:
        frames = self.frames[self.acked + skip : self.acked + most]
        return Batch(
            first=frames[0].seq,
            last=frames[-1].seq,
            logs=[(f.seq, f.log) for f in frames if f.log],
            points=[(f.seq, [f.point]) for f in frames if f.point is not None],
            phases=[(f.seq, f.phase) for f in frames if f.phase],
            progress=next((f.progress for f in reversed(frames) if f.progress), None),
        )


@dataclass(slots=True)
class ClientRecord:
    """One person's dealings with one job."""

    key: str | None
    job_ids: list[str] = field(default_factory=list)  # of every acknowledged submission
    submitted_at: float = 0.0
    cancel_acked: bool = False
