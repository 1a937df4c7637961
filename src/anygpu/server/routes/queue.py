"""Who waits, who runs, and what there is to run on."""

from typing import Any

from fastapi import APIRouter

from anygpu.control.queue import waiting_since_ms
from anygpu.errors import AnygpuError
from anygpu.events.facts import MICROUSD, Offer
from anygpu.events.view import JobView
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.openapi import JOB_ID, answers
from anygpu.server.jobs.queue import QueuePosition
from anygpu.server.services import CallerDep, Services, ServicesDep
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
async def get_queue(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The project's waiting and running jobs. Positions count everybody's jobs."""
    live = [view for view in await services.queue.live() if _is_visible(view, caller.scope)]
    turns = await services.queue.positions()
    now_ms = services.clock.wall_ms()
    waiting = sorted(
        (_render_waiting(view, turns[view.id], now_ms) for view in live if view.id in turns),
        key=lambda each: each["position"],
    )
    running = [_render_running(view) for view in live if view.id not in turns]
    return JsonResponse(
        {"jobs": waiting, "running": running, "slots": await _list_slots(services, caller.scope)}
    )


def _is_visible(view: JobView, scope: Scope) -> bool:
    return (view.organisation, view.project) == (scope.organisation, scope.project)


def _render_waiting(view: JobView, turn: QueuePosition, now_ms: int) -> dict[str, Any]:
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


def _render_running(view: JobView) -> dict[str, Any]:
    newest = view.attempt
    return {
        "id": view.id,
        "name": view.name,
        "backend": newest.offer.backend if newest else None,
        "phase": str(view.phase),
        "since": format_time(newest.launching_at_ms if newest else view.submitted_at_ms),
    }


async def _list_slots(services: Services, scope: Scope) -> list[dict[str, Any]]:
    """What each place offers to a job that asks for nothing special."""
    found: list[dict[str, Any]] = []
    for backend in (entry.backend for entry in services.backends.entries(scope.organisation)):
        try:
            offers = await backend.offers(Resources())
        except AnygpuError as error:
            found.append({"backend": backend.name, "name": "", "free": 0, "reason": str(error)})
            continue
        found += [_render_slot(offer) for offer in offers if not offer.paid]
        found += _render_cloud_slot([offer for offer in offers if offer.paid])
    return found


def _render_slot(offer: Offer) -> dict[str, Any]:
    return {
        "backend": offer.backend,
        "name": offer.name,
        "free": offer.free,
        "gpus": offer.gpu_count,
        "gpu": offer.gpu_kind,
        "cpus": offer.cpus,
        "reason": offer.wait_reason,
    }


def _render_cloud_slot(offers: list[Offer]) -> list[dict[str, Any]]:
    """A cloud is one place with many offers: the cheapest speaks for it."""
    if not offers:
        return []
    cheapest = min(offers, key=lambda offer: (bool(offer.refused), offer.price_microusd_per_hour))
    noun = "offer" if len(offers) == 1 else "offers"
    price = f"{len(offers)} {noun} from ${cheapest.price_microusd_per_hour / MICROUSD:.2f}/h"
    return [{**_render_slot(cheapest), "name": price, "reason": cheapest.refused or cheapest.wait_reason}]
