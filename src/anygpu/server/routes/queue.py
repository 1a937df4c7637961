"""Who waits, who runs, and what there is to run on."""

from typing import Any

from fastapi import APIRouter

from anygpu.control.queue import waiting_since_ms
from anygpu.errors import AnygpuError
from anygpu.events.facts import MICROUSD, Offer
from anygpu.events.view import JobView
from anygpu.server.bodies import Json
from anygpu.server.documented import answers
from anygpu.server.hub import iso
from anygpu.server.queue_look import Turn
from anygpu.server.routes.examples import JOB_ID
from anygpu.server.services import Asking, Served, Services
from anygpu.spec.model import Resources
from anygpu.store.scope import Scope

router = APIRouter(prefix="/api/v1/queue", tags=["queue"])

WAITING = {
    "id": JOB_ID,
    "name": "digits",
    "position": 1,
    "reason": "0 of 8 CPU slots here are free, the job needs 1",
    "priority": 0,
    "waiting_s": 3.2,
    "band": "short",
    "gpu_hours": 0.5,
    "project_gpu_hours": 12.0,
}
RUNNING = {
    "id": JOB_ID,
    "name": "digits",
    "backend": "local",
    "phase": "training",
    "since": "2026-01-05T10:00:00.000Z",
}
SLOT = {"backend": "local", "name": "here", "free": 1, "gpus": 0, "gpu": "", "cpus": 8, "reason": ""}


@router.get("", responses=answers("Now.", {"jobs": [WAITING], "running": [RUNNING], "slots": [SLOT]}))
async def queue(served: Served, asking: Asking) -> Json:
    """The project's waiting and running jobs. Positions count everybody's jobs."""
    live = [view for view in await served.queue.live() if _mine(view, asking.scope)]
    turns = await served.queue.turns()
    now_ms = served.clock.wall_ms()
    waiting = sorted(
        (_waiting(view, turns[view.id], now_ms) for view in live if view.id in turns),
        key=lambda each: each["position"],
    )
    running = [_running(view) for view in live if view.id not in turns]
    return Json({"jobs": waiting, "running": running, "slots": await _slots(served, asking.scope)})


def _mine(view: JobView, scope: Scope) -> bool:
    return (view.organisation, view.project) == (scope.organisation, scope.project)


def _waiting(view: JobView, turn: Turn, now_ms: int) -> dict[str, Any]:
    """`gpu_hours`: what the job has had, and its project lately. Of a job without GPUs, hours of CPU slots."""
    return {
        "id": view.id,
        "name": view.name,
        "position": turn.position,
        "reason": view.reason,
        "priority": view.spec.priority,
        "waiting_s": max(0, now_ms - waiting_since_ms(view)) / 1000,
        "band": turn.band,
        "gpu_hours": round(turn.job.attained_gpu_s / 3600, 3),
        "project_gpu_hours": round(turn.used_slot_s / 3600, 3),
    }


def _running(view: JobView) -> dict[str, Any]:
    newest = view.attempt
    return {
        "id": view.id,
        "name": view.name,
        "backend": newest.offer.backend if newest else None,
        "phase": str(view.phase),
        "since": iso(newest.launching_at_ms if newest else view.submitted_at_ms),
    }


async def _slots(served: Services, scope: Scope) -> list[dict[str, Any]]:
    """What each place offers to a job that asks for nothing special."""
    found: list[dict[str, Any]] = []
    for backend in (entry.backend for entry in served.backends.entries(scope.organisation)):
        try:
            offers = await backend.offers(Resources())
        except AnygpuError as error:
            found.append({"backend": backend.name, "name": "", "free": 0, "reason": str(error)})
            continue
        found += [_slot(offer) for offer in offers if not offer.paid]
        found += _rented([offer for offer in offers if offer.paid])
    return found


def _slot(offer: Offer) -> dict[str, Any]:
    return {
        "backend": offer.backend,
        "name": offer.name,
        "free": offer.free,
        "gpus": offer.gpu_count,
        "gpu": offer.gpu_kind,
        "cpus": offer.cpus,
        "reason": offer.wait_reason,
    }


def _rented(offers: list[Offer]) -> list[dict[str, Any]]:
    """A cloud is one place with many offers: the cheapest speaks for it."""
    if not offers:
        return []
    cheapest = min(offers, key=lambda offer: (bool(offer.refused), offer.price_microusd_per_hour))
    noun = "offer" if len(offers) == 1 else "offers"
    price = f"{len(offers)} {noun} from ${cheapest.price_microusd_per_hour / MICROUSD:.2f}/h"
    return [{**_slot(cheapest), "name": price, "reason": cheapest.refused or cheapest.wait_reason}]
