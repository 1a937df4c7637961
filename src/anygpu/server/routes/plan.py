"""Where a job could run, what it would cost, and why: before it is submitted, and for one that was."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from anygpu.errors import BlobMissing, InvalidSpec, Problem
from anygpu.events.facts import Status
from anygpu.events.view import JobView
from anygpu.server.bodies import Json, only_fields, read_object
from anygpu.server.documented import answers, takes
from anygpu.server.render import better, predicted
from anygpu.server.resolve import resolve
from anygpu.server.routes.examples import BETTER, JOB_ID, PLAN, PREDICTION, SPEC
from anygpu.server.routes.training import Ref, accepted_spec
from anygpu.server.services import Asking, Served

router = APIRouter(prefix="/api/v1", tags=["plan"])

MOST_FILES = 200
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
async def plan(
    request: Request,
    served: Served,
    asking: Asking,
    limit: Annotated[int, Query(ge=0, le=100_000)] = 8,
) -> Json:
    """Compare places for a job: `{"spec", "files"}`, or a spec alone. Nothing is started.

    `limit`: how many kinds of machine are on the short list, and how many offers are told; 0 tells every offer.
    """
    body = await read_object(request)
    asked, files = (body["spec"], _files(body)) if "spec" in body else (body, {})
    spec = await accepted_spec(served, asking, asked, None)
    organisation = asking.scope.organisation
    return Json(await served.planning.plan(spec, organisation, files, most=limit or None, short=limit))


@router.get("/training/{ref}/plan", responses=answers("As it was then.", TOLD))
async def kept(ref: Ref, served: Served, asking: Asking) -> Json:
    """The comparison a job's place came from, what was predicted, and what it took."""
    view = await resolve(served.journal, asking.scope, ref)
    try:
        found = await served.plans.read(view.plan) if view.plan else None
    except BlobMissing:
        found = None
    return Json(
        {
            "id": view.id,
            "plan": found,
            "predicted": predicted(view.predicted),
            "newest": predicted(view.prediction),
            "better": better(view),
            "actual": _actual(view),
        }
    )


def _files(body: dict[str, Any]) -> dict[str, str]:
    only_fields(body, "spec", "files")
    files = body.get("files") or {}
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise InvalidSpec([Problem("files", None, "texts by their paths are needed", source="body")])
    if len(files) > MOST_FILES:
        raise InvalidSpec([Problem("files", len(files), f"at most {MOST_FILES} files", source="body")])
    return files


def _actual(view: JobView) -> dict[str, Any] | None:
    """Of a job that completed: one that was cut short says nothing of the prediction."""
    if view.status is not Status.COMPLETED or view.ended_at_ms is None:
        return None
    began_ms = view.attempts[0].launching_at_ms
    return {"seconds": (view.ended_at_ms - began_ms) / 1000, "cost_microusd": view.cost_microusd}
