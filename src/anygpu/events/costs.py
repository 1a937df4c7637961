"""Cost entries: the billed time and cost of each attempt of a job, with everything that costs are grouped by.

Pure functions. The sum of a job's entries is the ledger of the job (`JobView.cost_microusd`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from anygpu.events.facts import PLANNED_STOPS, Blame, Usage
from anygpu.events.view import AttemptView, JobView


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEntry:
    """The time and cost of one machine of an attempt. `ended_at_ms` is always after `started_at_ms`.

    Work that was lost belongs to the first entry of an attempt.
    """

    job_id: str
    attempt: int
    part: int  # 0: the attempt's own machine; 1, 2, …: machines that appeared after its release
    started_at_ms: int
    ended_at_ms: int
    cost_microusd: int
    saved_microusd: int = 0  # against the on-demand price of the same machine; 0 if that is unknown
    person: str = ""
    backend: str = ""
    gpu_kind: str = ""
    gpu_count: int = 0
    interruptible: bool = False
    interrupted: bool = False  # the machine was taken away or lost during training
    lost_s: float = 0.0
    lost_microusd: int = 0
    tags: tuple[str, ...] = ()


def cost_entries(view: JobView) -> list[CostEntry]:
    """Return the entries of all released attempts of a job."""
    return [entry for attempt in view.attempts for entry in released_entries(view, attempt)]


def released_entries(view: JobView, attempt: AttemptView) -> Iterator[CostEntry]:
    """Yield the entries of an attempt; none while its machine may exist, or if it had no machine."""
    if attempt.released_at_ms is None:
        return
    if attempt.usage is not None:
        yield _from_usage(view, attempt, 0, attempt.usage)
    elif has_machine(attempt):
        began_ms = attempt.started_at_ms or attempt.launching_at_ms
        yield make_entry(view, attempt, began_ms, attempt.released_at_ms, 0)
    for number, orphan in enumerate(attempt.orphans, start=1):
        yield _from_usage(view, attempt, number, orphan)


def make_entry(
    view: JobView, attempt: AttemptView, from_ms: int, to_ms: int, cost_microusd: int, part: int = 0
) -> CostEntry:
    offer, is_first = attempt.offer, part == 0
    return CostEntry(
        job_id=view.id,
        attempt=attempt.number,
        part=part,
        started_at_ms=from_ms,
        ended_at_ms=max(to_ms, from_ms + 1),
        cost_microusd=cost_microusd,
        saved_microusd=_saved_microusd(attempt, cost_microusd),
        person=view.person,
        backend=offer.backend,
        gpu_kind=offer.gpu_kind,
        gpu_count=offer.gpu_count,
        interruptible=offer.interruptible,
        interrupted=is_first and was_interrupted(attempt),
        lost_s=attempt.work_lost_s + attempt.restart_lost_s if is_first else 0.0,
        lost_microusd=attempt.work_lost_microusd + attempt.restart_lost_microusd if is_first else 0,
        tags=view.tags,
    )


def has_machine(attempt: AttemptView) -> bool:
    """Return whether a machine of the attempt was seen."""
    return attempt.handle is not None or attempt.claimant is not None or attempt.started_at_ms is not None


def was_interrupted(attempt: AttemptView) -> bool:
    """Return whether training stopped because the machine was taken away or lost."""
    failure = attempt.failure
    if failure is None or attempt.training_at_ms is None or failure.code in PLANNED_STOPS:
        return False
    is_lost = failure.blame is Blame.INFRASTRUCTURE and attempt.lost is not None
    return is_lost or failure.blame is Blame.PREEMPTION


def _from_usage(view: JobView, attempt: AttemptView, part: int, usage: Usage) -> CostEntry:
    return make_entry(view, attempt, usage.started_at_ms, usage.ended_at_ms, usage.cost_microusd, part)


def _saved_microusd(attempt: AttemptView, cost_microusd: int) -> int:
    """Return what the machine would have cost more on demand, for the same time."""
    price, on_demand = attempt.node_hourly_microusd, attempt.on_demand_microusd_per_hour
    if on_demand is None or not price or not attempt.offer.interruptible:
        return 0
    return round(cost_microusd * on_demand / price) - cost_microusd
