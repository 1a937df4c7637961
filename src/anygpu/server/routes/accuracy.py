"""How good the platform's own predictions were."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter

from anygpu.plan.accuracy import TARGET, Judged, accuracy, by_basis
from anygpu.server.bodies import Json
from anygpu.server.documented import answers
from anygpu.server.services import Asking, Served
from anygpu.store.outcomes import MOST, Outcome

router = APIRouter(prefix="/api/v1/accuracy", tags=["accuracy"])

ERRORS = {"jobs": 12, "median_error": 0.08, "p90_error": 0.21, "held": 11, "median_width": 1.6}
JUDGED = {"jobs": 12, "time": ERRORS, "cost": None}
SHOWN = {
    "jobs": 12,
    "most": MOST,
    "target": TARGET,
    "before": {**JUDGED, "by_basis": {"history": JUDGED}},
    "first_steps": {**JUDGED, "by_basis": {"first steps": JUDGED}},
}


@router.get("", responses=answers("Of the newest jobs that were predicted and completed.", SHOWN))
async def look(served: Served, asking: Asking) -> Json:
    """Predicted against actual, of the organisation's completed jobs: before they ran, and after their first steps.

    Errors are shares of what it really was; `held`: intervals that held the truth; `width`: their high end over
    their low end.
    """
    found = await served.outcomes.of_organisation(asking.scope.organisation)
    before = [_judged(each, each.predicted) for each in found if each.predicted]
    later = [_judged(each, each.calibrated) for each in found if each.calibrated]
    shown = {"before": _shown(before), "first_steps": _shown(later)}
    return Json({"jobs": len(found), "most": MOST, "target": TARGET, **shown})


def _judged(outcome: Outcome, said: Any) -> Judged:
    return Judged(said=said, wall_s=outcome.wall_s, cost_microusd=outcome.cost_microusd)


def _shown(judged: Sequence[Judged]) -> dict[str, Any]:
    each = {basis: asdict(found) for basis, found in by_basis(judged).items()}
    return {**asdict(accuracy(judged)), "by_basis": each}
