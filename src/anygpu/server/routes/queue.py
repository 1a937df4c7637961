"""Routes for the queue: waiting jobs, running jobs, and the free capacity of machines."""

from anygpu.api.queue import BackendSlot, QueueContents, QueuedJob, RunningJob, UnavailableSlot
from anygpu.control.schedule.queue import waiting_since_ms
from anygpu.errors import AnygpuError
from anygpu.events.offers import MICROUSD, Offer
from anygpu.events.view import JobView
from anygpu.server.encoding import format_time
from anygpu.server.http.route import api_router
from anygpu.server.jobs.queue import QueuePosition, is_visible
from anygpu.server.services import CallerDep, Services, ServicesDep
from anygpu.spec.sections import Resources
from anygpu.store.scope import Scope

router = api_router("/api/v1/queue", tag="queue")


@router.get("", response_description="The queue now.")
async def get_queue(services: ServicesDep, caller: CallerDep) -> QueueContents:
    """Show the waiting and running jobs of the project. Queue positions count the jobs of all projects."""
    live = [view for view in await services.queue.live() if is_visible(view, caller.scope)]
    positions = await services.queue.positions()
    now_ms = services.clock.wall_ms()
    waiting = [_render_waiting(view, positions[view.id], now_ms) for view in live if view.id in positions]
    return QueueContents(
        jobs=sorted(waiting, key=lambda job: job.position),
        running=[_render_running(view) for view in live if view.id not in positions and not view.damaged],
        slots=await _list_slots(services, caller.scope),
    )


def _render_waiting(view: JobView, entry: QueuePosition, now_ms: int) -> QueuedJob:
    return QueuedJob(
        id=view.id,
        name=view.name,
        position=entry.position,
        reason=view.reason,
        priority=view.spec.priority,
        waiting_s=max(0, now_ms - waiting_since_ms(view)) / 1000,
        wait_s=entry.wait_s,
        band=entry.band,
        gpu_hours=round(entry.job.attained_gpu_s / 3600, 3),
        project_gpu_hours=round(entry.used_slot_s / 3600, 3),
    )


def _render_running(view: JobView) -> RunningJob:
    newest = view.newest_attempt
    return RunningJob(
        id=view.id,
        name=view.name,
        backend=newest.offer.backend if newest else None,
        phase=str(view.phase),
        since=format_time(newest.launching_at_ms if newest else view.submitted_at_ms),
    )


async def _list_slots(services: Services, scope: Scope) -> list[BackendSlot | UnavailableSlot]:
    """Return the free capacity that each backend has for a job without requirements."""
    slots: list[BackendSlot | UnavailableSlot] = []
    for backend in (entry.backend for entry in services.backends.entries(scope.organisation)):
        try:
            offers = await backend.offers(Resources())
        except AnygpuError as error:
            slots.append(UnavailableSlot(backend=backend.name, name="", free=0, reason=str(error)))
            continue
        slots += [_render_slot(offer) for offer in offers if not offer.is_paid]
        slots += _render_cloud_slot([offer for offer in offers if offer.is_paid])
    return slots


def _render_slot(offer: Offer) -> BackendSlot:
    return BackendSlot(
        backend=offer.backend,
        name=offer.name,
        free=offer.free,
        gpus=offer.gpu_count,
        gpu=offer.gpu_kind,
        cpus=offer.cpus,
        reason=offer.wait_reason,
    )


def _render_cloud_slot(offers: list[Offer]) -> list[BackendSlot]:
    """Return the capacity of a cloud as one entry, described by its cheapest offer; empty if it has no offers."""
    if not offers:
        return []
    cheapest = min(offers, key=lambda offer: (bool(offer.refused), offer.price_microusd_per_hour))
    noun = "offer" if len(offers) == 1 else "offers"
    price = f"{len(offers)} {noun} from ${cheapest.price_microusd_per_hour / MICROUSD:.2f}/h"
    update = {"name": price, "reason": cheapest.refused or cheapest.wait_reason}
    return [_render_slot(cheapest).model_copy(update=update)]
