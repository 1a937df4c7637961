"""`Status`: the state of a job at one moment, as `job.monitor()` yields it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

TERMINAL = ("completed", "failed", "cancelled")
MICROUSD = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a job at one moment.

    `progress` is a percentage; `cost` and `price_per_hour` are in dollars. `resume` says whether the newest
    attempt continued from its checkpoint.
    """

    job_id: str
    name: str = ""
    status: str = "queued"
    phase: str = "planning"
    reason: str = ""
    backend: str | None = None
    previous_backend: str | None = None
    region: str = ""
    machine: str = ""  # machine type, or name of the machine
    price_per_hour: float = 0.0  # 0 on a free machine
    backend_changed: bool = False
    attempt: int = 0
    progress: float = 0.0
    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    message: str = ""
    cost: float = 0.0
    metrics: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    work_lost_s: float = 0.0
    work_lost: float = 0.0  # in dollars
    resume: Mapping[str, Any] | None = None  # whether the newest attempt continued from its checkpoint
    estimated_remaining: float | None = None  # predicted cost of the rest in dollars
    estimated_remaining_s: float | None = None
    logs: tuple[str, ...] = ()  # last lines of the output
    failure: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        return self.job_id

    @property
    def cost_so_far(self) -> float:
        """The cost in dollars."""
        return self.cost

    @property
    def done(self) -> bool:
        return self.status in TERMINAL

    def with_job(self, job: Mapping[str, Any]) -> "Status":
        """Return a copy of this status, updated with the server's details of the job."""
        backend = job.get("backend") or self.backend
        rest = job.get("estimated_remaining")
        moved = self.backend is not None and backend != self.backend
        place = job.get("place") or {}
        fresh = replace(
            self,
            name=job.get("name") or "",
            status=job["status"],
            phase=job["phase"],
            reason=job.get("reason") or "",
            backend=backend,
            previous_backend=self.backend if moved else self.previous_backend,
            backend_changed=moved,
            region=place.get("zone") or place.get("region") or "",
            machine=place.get("name") or "",
            price_per_hour=(place.get("price_microusd_per_hour") or 0) / MICROUSD,
            attempt=job.get("attempt") or 0,
            cost=(job.get("cost_microusd") or 0) / MICROUSD,
            metrics={**self.metrics, **(job.get("metrics") or {})},
            work_lost_s=job.get("work_lost_s") or 0.0,
            work_lost=(job.get("work_lost_microusd") or 0) / MICROUSD,
            resume=job.get("resume"),
            estimated_remaining=None if rest is None else rest["cost_microusd"] / MICROUSD,
            estimated_remaining_s=None if rest is None else rest["seconds"],
            logs=tuple(job.get("recent_logs") or ()),
            failure=job.get("failure"),
        )
        return fresh.with_progress(job.get("progress") or {}, job.get("telemetry") or {})

    def with_progress(self, progress: Mapping[str, Any], telemetry: Mapping[str, Any]) -> "Status":
        fraction = fraction_of(progress)
        return replace(
            self,
            progress=self.progress if fraction is None else round(100 * fraction, 2),
            step=_first_not_none(progress.get("step"), self.step),
            steps=_first_not_none(progress.get("steps"), self.steps),
            epoch=_first_not_none(progress.get("epoch"), self.epoch),
            epochs=_first_not_none(progress.get("epochs"), self.epochs),
            message=progress.get("message") or self.message,
            telemetry=telemetry or self.telemetry,
        )

    def with_points(self, points: list[list[Any]]) -> "Status":
        newest = {name: value for name, _, _, value in points}
        return replace(self, metrics={**self.metrics, **newest})

    def without_news(self) -> "Status":
        """Return a copy of this status with `backend_changed` reset, so that each move of the job is reported once."""
        return replace(self, backend_changed=False)


def fraction_of(progress: Mapping[str, Any]) -> float | None:
    """Return the completed fraction: as reported, else from steps, else from epochs; None if unknown."""
    if progress.get("fraction") is not None:
        return float(progress["fraction"])
    for done, total in (("step", "steps"), ("epoch", "epochs")):
        if progress.get(done) is not None and progress.get(total):
            return min(1.0, float(progress[done]) / float(progress[total]))
    return None


def _first_not_none(new: int | None, current: int | None) -> int | None:
    return current if new is None else new
