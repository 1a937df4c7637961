"""`MLPlatform`: `Platform` with calls that recommend backends for a piece of code and report a job's unified status.

platform = MLPlatform()
for each in platform.recommend_backend(open("train.py").read(), {"optimize_for": "cost"}):
    print(each.backend, each.cost_estimate.total, each.availability.status)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from anygpu.sdk.platform import Platform, merge_specs
from anygpu.sdk.status import MICROUSD, Status
from anygpu.sdk.upload.requirements import Requirements, placement_from


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The predicted cost of a job in dollars."""

    hourly: float
    total: float
    confidence: str


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a machine is free now. `wait_time` is the expected time to the first step, in seconds."""

    status: Literal["available", "queued", "limited"]
    wait_time: float


@dataclass(frozen=True, slots=True)
class BackendRecommendation:
    """The best offer of one backend. A higher `score` is better; the best backend has 100."""

    backend: str
    score: float
    cost_estimate: CostEstimate
    availability: Availability
    pros: tuple[str, ...]
    cons: tuple[str, ...]
    configured: bool  # False: the backend must be added first, with `anygpu backend add`


class MLPlatform(Platform):
    """A `Platform` that also recommends backends."""

    def recommend_backend(
        self,
        code: str,
        user_preferences: Mapping[str, Any] | None = None,
        *,
        requirements: Requirements | None = None,
        **spec: Any,
    ) -> list[BackendRecommendation]:
        """Compare the backends for `code`, best first. Nothing is started."""
        needs = requirements.spec() if requirements is not None else {}
        wishes = {"placement": placement_from(user_preferences or {})}
        plan = self.client.plan(merge_specs(needs, wishes, {"code": code}, spec), {}, limit=100)
        best: dict[str, dict[str, Any]] = {}
        for offer in plan["offers"]:
            best.setdefault(offer["backend"], offer)
        top = min((offer["score"] for offer in best.values()), default=0.0)
        return [_recommendation(offer, top) for offer in best.values()]

    def get_unified_status(self, job_id: str) -> Status:
        """Return a job's backend, phase, progress, last lines, metrics, cost so far and estimated rest."""
        return self.job(job_id).status()


def _recommendation(offer: Mapping[str, Any], top: float) -> BackendRecommendation:
    return BackendRecommendation(
        backend=offer["backend"],
        score=100.0 if offer["score"] <= top else round(100 * top / offer["score"], 1),
        cost_estimate=CostEstimate(
            hourly=offer["price_microusd_per_hour"] / MICROUSD,
            total=offer["cost_microusd"]["expected"] / MICROUSD,
            confidence=offer["confidence"],
        ),
        availability=Availability(_availability(offer), offer["setup_s"]),
        pros=tuple(offer["pros"]),
        cons=tuple(offer["cons"]),
        configured=offer["configured"],
    )


def _availability(offer: Mapping[str, Any]) -> Literal["available", "queued", "limited"]:
    """Return `queued` if no machine is free, `limited` if spot machines may run out, else `available`."""
    if offer["free"] == 0 or offer["wait"]:
        return "queued"
    return "limited" if offer["interruptible"] else "available"
