"""Compare offers for a job, show the stored comparison of a job, and measure prediction accuracy."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from anygpu.errors import BlobMissing, InvalidSpec, Problem
from anygpu.events.facts import Status
from anygpu.events.view import JobView
from anygpu.plan.accuracy import TARGET, Judged, accuracy, by_basis
from anygpu.server.http.bodies import JsonResponse, only_fields, read_object
from anygpu.server.http.openapi import BETTER, JOB_ID, PLAN, PREDICTION, SPEC, answers, takes
from anygpu.server.jobs.render import render_better_offer, render_prediction
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.routes.jobs import JobRef, parse_spec
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.store.outcomes import MOST, Outcome

router = APIRouter(prefix="/api/v1", tags=["plan"])

MAX_FILES = 200
ASKED = {"spec": SPEC, "files": {"train.py": "import torch\n…"}}
ACTUAL = {"seconds": 7911.4, "cost_microusd": 1_320_000}
TOLD = {
    "id": JOB_ID,
    "plan": PLAN,
    "predicted": PREDICTION,
    "newest": PREDICTION,
    "better": BETTER,
    "actual": ACTUAL,
}


@router.post("/plan", responses=answers("Every place, best first.", PLAN), openapi_extra=takes(ASKED))
async def plan_job(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=0, le=100_000)] = 8,
) -> JsonResponse:
    """Compare places for a job: `{"spec", "files"}`, or a spec alone. Nothing is started.

    `limit`: how many kinds of machine are on the short list, and how many offers are told; 0 tells every offer.
    """
    body = await read_object(request)
    asked, files = (body["spec"], _code_files(body)) if "spec" in body else (body, {})
    spec = await parse_spec(services, caller, asked, None)
    organisation = caller.scope.organisation
    return JsonResponse(
        await services.planner.plan(spec, organisation, files, most=limit or None, short=limit)
    )


@router.get("/training/{ref}/plan", responses=answers("As it was then.", TOLD))
async def get_job_plan(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The comparison a job's place came from, what was predicted, and what it took."""
    view = await resolve_job(services.journal, caller.scope, ref)
    try:
        found = await services.plans.read(view.plan) if view.plan else None
    except BlobMissing:
        found = None
    return JsonResponse(
        {
            "id": view.id,
            "plan": found,
            "predicted": render_prediction(view.predicted),
            "newest": render_prediction(view.prediction),
            "better": render_better_offer(view),
            "actual": _actual_result(view),
        }
    )


def _code_files(body: dict[str, Any]) -> dict[str, str]:
    only_fields(body, "spec", "files")
    files = body.get("files") or {}
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise InvalidSpec([Problem("files", None, "texts by their paths are needed", source="body")])
    if len(files) > MAX_FILES:
        raise InvalidSpec([Problem("files", len(files), f"at most {MAX_FILES} files", source="body")])
    return files


def _actual_result(view: JobView) -> dict[str, Any] | None:
    """Of a job that completed: one that was cut short says nothing of the prediction."""
    if view.status is not Status.COMPLETED or view.ended_at_ms is None:
        return None
    began_ms = view.attempts[0].launching_at_ms
    return {"seconds": (view.ended_at_ms - began_ms) / 1000, "cost_microusd": view.cost_microusd}


ERRORS = {"jobs": 12, "median_error": 0.08, "p90_error": 0.21, "held": 11, "median_width": 1.6}
JUDGED = {"jobs": 12, "time": ERRORS, "cost": None}
SHOWN = {
    "jobs": 12,
    "most": MOST,
    "target": TARGET,
    "before": {**JUDGED, "by_basis": {"history": JUDGED}},
    "first_steps": {**JUDGED, "by_basis": {"first steps": JUDGED}},
}


@router.get("/accuracy", responses=answers("Of the newest jobs that were predicted and completed.", SHOWN))
async def get_accuracy(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Predicted against actual, of the organisation's completed jobs: before they ran, and after their first steps.

    Errors are shares of what it really was; `held`: intervals that held the truth; `width`: their high end over
    their low end.
    """
    found = await services.outcomes.of_organisation(caller.scope.organisation)
    before = [_prediction_pair(each, each.predicted) for each in found if each.predicted]
    later = [_prediction_pair(each, each.calibrated) for each in found if each.calibrated]
    shown = {"before": _accuracy_by_basis(before), "first_steps": _accuracy_by_basis(later)}
    return JsonResponse({"jobs": len(found), "most": MOST, "target": TARGET, **shown})


def _prediction_pair(outcome: Outcome, said: Any) -> Judged:
    return Judged(said=said, wall_s=outcome.wall_s, cost_microusd=outcome.cost_microusd)


def _accuracy_by_basis(judged: Sequence[Judged]) -> dict[str, Any]:
    each = {basis: asdict(found) for basis, found in by_basis(judged).items()}
    return {**asdict(accuracy(judged)), "by_basis": each}
