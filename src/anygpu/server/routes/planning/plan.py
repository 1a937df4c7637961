"""Compare offers for a job, show the stored plan of a job, and measure the accuracy of predictions."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from anygpu.api.plans import (
    AccuracyReport,
    JobPlan,
    JobPlanDetails,
    JudgedJobList,
    NativePlan,
    NativePlanRequest,
    NativeRequestText,
    OfferIdentity,
    PlanRequest,
    StageAccuracy,
)
from anygpu.errors import BlobMissing, NotFound
from anygpu.events.facts import Status
from anygpu.events.view import JobView
from anygpu.plan.predict.accuracy import (
    TARGET_COVERAGE,
    JudgedPrediction,
    accuracy_by_basis,
    measure_accuracy,
)
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, parse_body, read_object
from anygpu.server.http.openapi import PLAN_SCHEMA, object_body
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.jobs.render import render_better_offer, render_prediction
from anygpu.server.jobs.resolve import resolve_job
from anygpu.server.jobs.submission.native import OfferChoice
from anygpu.server.jobs.submission.planning import PlanView
from anygpu.server.routes.training.jobs import JobRef, parse_spec, split_values
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.store.outcomes import MAX_ROWS, JobOutcome
from anygpu.store.scope import Scope

router = api_router("/api/v1", tag="plan")

PLAN_EXAMPLE = {
    "spec": {"script": "train.py", "args": ["--epochs", "3"]},
    "files": {"train.py": "import torch\n…"},
}


# Plans are built, and stored with their job, as plain data. The models are for the OpenAPI document.
@router.post(
    "/plan",
    response_model=JobPlan,
    response_description="Offers, best first.",
    openapi_extra=object_body(PLAN_EXAMPLE, schema=PLAN_SCHEMA),
)
async def plan_job(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    limit: Annotated[int, Query(ge=0, le=100_000)] = 8,
    backend: Annotated[list[str] | None, Query(max_length=100)] = None,
    outside: bool = False,
) -> JsonResponse:
    """Compare offers for a job. The body is `{"spec", "files"}`, or a spec alone. Nothing is started.

    `limit` is the length of the short list and of the list of offers; 0 lists every offer. `backend` limits the
    short list to offers of these backends and clouds. With `outside=true` the plan also has offers that only the
    budget or the deadline excludes.
    """
    body = await read_object(request)
    request_body = parse_body(PlanRequest, body) if "spec" in body else PlanRequest(spec=body)
    spec = await parse_spec(services, caller, request_body.spec, None)
    view = PlanView(
        limit=limit or None, short=limit, backends=frozenset(split_values(backend)), outside=outside
    )
    plan = await services.planner.plan(spec, caller.scope.organisation, request_body.files or {}, view)
    return JsonResponse(plan)


@router.post("/plan/native", response_description="The offer and its requests.")
async def show_native_requests(
    body: Annotated[NativePlanRequest, Depends(JsonBody(NativePlanRequest))],
    services: ServicesDep,
    caller: CallerDep,
) -> NativePlan:
    """Show the requests that a backend would send to start a job. Nothing is sent or started.

    They have no credentials, and words in place of tickets. `backend`, `offer` and `region` choose an offer as a plan
    has it; without them it is the best offer of a configured backend. A job that does not exist yet has an id of zeros.
    """
    spec = await parse_spec(services, caller, body.spec, None)
    choice = OfferChoice(backend=body.backend, name=body.offer, region=body.region)
    offer, requests = await services.native_requests.read(spec, caller.scope, body.files or {}, choice)
    return NativePlan(
        offer=OfferIdentity.model_validate(offer.place_fields()),
        requests=[NativeRequestText(title=r.title, language=r.language, text=r.text) for r in requests],
    )


@router.get("/training/{ref}/plan", response_model=JobPlanDetails, response_description="The stored plan.")
async def get_job_plan(ref: JobRef, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Show the stored plan by which an offer was chosen for the job, the predictions, and the actual result."""
    view = await resolve_job(services.journal, caller.scope, ref)
    try:
        plan = await services.plans.read(view.plan) if view.plan else None
    except BlobMissing:
        plan = None
    return JsonResponse(
        {
            "id": view.id,
            "plan": plan,
            "predicted": render_prediction(view.predicted),
            "newest": render_prediction(view.prediction),
            "better": render_better_offer(view),
            "actual": _actual_result(view),
        }
    )


def _actual_result(view: JobView) -> dict[str, Any] | None:
    """Return time and cost of a completed job, else None: a job that was stopped early cannot be compared."""
    if view.status is not Status.COMPLETED or view.ended_at_ms is None:
        return None
    began_ms = view.attempts[0].launching_at_ms
    return {"seconds": (view.ended_at_ms - began_ms) / 1000, "cost_microusd": view.cost_microusd}


@router.get(
    "/accuracy", tags=["accuracy"], response_description="Of the newest predicted and completed jobs."
)
async def get_accuracy(services: ServicesDep, caller: CallerDep) -> AccuracyReport:
    """Compare predictions with results, for predictions before the job ran and after its first steps.

    Errors are fractions of the actual value. `held` counts the intervals that contained the actual value.
    `median_width` is the median ratio of an interval's high end to its low end.
    """
    outcomes = await services.outcomes.for_organisation(caller.scope.organisation)
    before = [_prediction_pair(each, each.predicted) for each in outcomes if each.predicted]
    later = [_prediction_pair(each, each.calibrated) for each in outcomes if each.calibrated]
    return AccuracyReport(
        jobs=len(outcomes),
        most=MAX_ROWS,
        target=TARGET_COVERAGE,
        before=_stage_accuracy(before),
        first_steps=_stage_accuracy(later),
    )


@router.get(
    "/accuracy/jobs",
    tags=["accuracy"],
    response_model=JudgedJobList,
    response_description="The newest predicted and completed jobs.",
)
async def list_judged_jobs(
    services: ServicesDep, caller: CallerDep, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> JsonResponse:
    """List completed jobs of the project with their predictions and results, newest first."""
    scope = caller.scope
    outcomes = await services.outcomes.for_organisation(scope.organisation)
    own = [each for each in outcomes if each.project == scope.project][:limit]
    return JsonResponse({"jobs": [await _render_judged_job(services, scope, each) for each in own]})


async def _render_judged_job(services: Services, scope: Scope, outcome: JobOutcome) -> dict[str, Any]:
    try:
        name = (await services.journal.view(scope, outcome.job_id)).name
    except NotFound:  # deleted
        name = ""
    return {
        "id": outcome.job_id,
        "name": name,
        "backend": outcome.backend,
        "ended_at": format_time(outcome.ended_at_ms),
        "predicted": render_prediction(outcome.predicted),
        "calibrated": render_prediction(outcome.calibrated),
        "actual": {"seconds": outcome.wall_s, "cost_microusd": outcome.cost_microusd},
    }


def _prediction_pair(outcome: JobOutcome, prediction: Any) -> JudgedPrediction:
    return JudgedPrediction(prediction=prediction, wall_s=outcome.wall_s, cost_microusd=outcome.cost_microusd)


def _stage_accuracy(pairs: Sequence[JudgedPrediction]) -> StageAccuracy:
    parts = {basis: asdict(part) for basis, part in accuracy_by_basis(pairs).items()}
    return StageAccuracy.model_validate({**asdict(measure_accuracy(pairs)), "by_basis": parts})
