"""Every place a job could run, with its bill: ranked by what was asked for, the rest with the reason it is out.

Pure: the same question gets the same answer. A place is an offer with what its cloud's terms add to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from anygpu.events.facts import MICROUSD, Offer
from anygpu.plan import gpus
from anygpu.plan.analyse.findings import Analysis, WorkloadCharacteristics
from anygpu.plan.bill import Bill, Circuit, Run, Span, bill
from anygpu.plan.route import unfit
from anygpu.plan.throughput import speedup, times_as_long
from anygpu.plan.words import cons, pros
from anygpu.spec.model import JobSpec

REFERENCE = "A100-40GB"  # what an analysis counts its hours on
GIB = 1.073741824  # decimal gigabytes
UNKNOWN = Span(expected=2 * 3600.0, low=720.0, high=72_000.0)  # nothing says how long: wide enough to be true


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere a job could run. `own`: it is configured, and may be used now."""

    offer: Offer
    boot_s: float = 5.0
    egress_microusd_per_gib: int = 0
    stale_days: int = 0  # how old its price is, when that is too old to be trusted
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A place in the plan. `score`: lower is better; `rejected`: why it is not to be chosen."""

    place: Place
    bill: Bill
    score: float = inf
    rejected: str = ""
    confidence: str = "low"
    basis: str = "nothing"  # what its time is predicted from: said | history | code | nothing
    idle_gpus: bool = False
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Best first; the rejected apart."""

    strategy: str
    lines: tuple[Line, ...]
    rejected: tuple[Line, ...]

    @property
    def choice(self) -> Line | None:
        return next(iter(self.lines), None)

    def short(self, most: int = 8) -> tuple[Line, ...]:
        """Not fifty near-identical rows: the best of each kind of machine."""
        seen: dict[tuple[str, int, bool], Line] = {}
        for line in self.lines:
            offer = line.place.offer
            seen.setdefault((offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible), line)
        return tuple(seen.values())[:most]


def planned(
    spec: JobSpec, read: Analysis | None, places: Sequence[Place], *, deadline_s: float | None = None
) -> Planned:
    """`deadline_s`: seconds from now until it has to be done."""
    lines = [_line(spec, read, place, deadline_s) for place in places]
    fit = [line for line in lines if not line.rejected]
    strategy = spec.placement.strategy or "cheapest"
    scored = [replace(line, score=_score(strategy, line, fit, spec)) for line in fit]
    ranked = sorted(scored, key=_order)
    worded = tuple(replace(line, pros=pros(line, ranked), cons=cons(line, ranked)) for line in ranked)
    return Planned(strategy=strategy, lines=worded, rejected=tuple(line for line in lines if line.rejected))


def _line(spec: JobSpec, read: Analysis | None, place: Place, deadline_s: float | None) -> Line:
    needs = read.characteristics if read is not None else None
    offer = place.offer
    training_s = duration_on(offer, needs, spec, spreads=read is not None and read.multi_gpu is not None)
    circuit = Circuit(boot_s=place.boot_s, egress_microusd_per_gib=place.egress_microusd_per_gib)
    data_gib = needs.dataset_size_gb.value / GIB if needs is not None else 0.0
    found = bill(
        replace(offer, expected_wait_s=0.0), Run(training_s=training_s, upload_gib=data_gib), circuit
    )
    resumes = needs is not None and needs.interruptible.value
    why_not = (
        unfit(spec, offer, resumable=resumes) or _too_small(needs, offer) or _limits(spec, found, deadline_s)
    )
    return Line(
        place=place,
        bill=found,
        rejected=why_not,
        confidence=_confidence(needs, place, spec),
        basis="said" if spec.placement.expected_duration_s else "code" if needs is not None else "nothing",
        idle_gpus=read is not None and read.multi_gpu is None and offer.gpu_count > 1,
    )


def duration_on(
    offer: Offer, needs: WorkloadCharacteristics | None, spec: JobSpec, *, spreads: bool = False
) -> Span:
    """Uninterrupted training there. What the job says of itself wins over what its code says.

    `spreads`: its code uses every GPU it finds.
    """
    if spec.placement.expected_duration_s:
        said = spec.placement.expected_duration_s
        return Span(expected=said, low=0.8 * said, high=1.25 * said)
    if needs is None:
        return UNKNOWN
    factor = 3600.0 * _slower(offer, offer.gpu_count if spreads else 1)
    low, high = needs.duration_range_hours
    return Span(expected=needs.duration_hours.value * factor, low=low * factor, high=high * factor)


def _slower(offer: Offer, used: int) -> float:
    """How many times as long as on the reference; a machine whose GPU nobody knows counts as the reference."""
    here = gpus.spec(offer.gpu_kind, memory_gib=offer.gpu_memory_gib) if offer.gpu_kind else None
    reference = gpus.spec(REFERENCE)
    if here is None or reference is None:
        return 1.0 if offer.gpu_count else 20.0
    return times_as_long(here, reference) / speedup(max(1, used))


def _too_small(needs: WorkloadCharacteristics | None, offer: Offer) -> str:
    """By what the code is predicted to need, beside what the job asks for."""
    needed_gb = needs.gpu_memory_gb.value if needs is not None else 0.0
    has_gb = offer.gpu_memory_gib * GIB
    if not needed_gb or not offer.gpu_count or not has_gb or needed_gb <= has_gb:
        return ""
    return f"holds {has_gb:.0f} GB a GPU; training is predicted to need {needed_gb:.0f} GB"


def _limits(spec: JobSpec, found: Bill, deadline_s: float | None) -> str:
    limits, cost, wall_s = spec.limits, found.cost_microusd.expected, found.wall_s.expected
    if limits.max_cost_microusd is not None and cost > limits.max_cost_microusd:
        return f"would cost ${cost / MICROUSD:,.2f}, more than the ${limits.max_cost_microusd / MICROUSD:,.2f} allowed"
    if deadline_s is not None and wall_s > deadline_s:
        return f"would take {wall_s / 3600:.1f} h; the deadline is in {deadline_s / 3600:.1f} h"
    return ""


def _confidence(needs: WorkloadCharacteristics | None, place: Place, spec: JobSpec) -> str:
    said = "high" if spec.placement.expected_duration_s else "low"
    read = needs.duration_hours.sureness if needs is not None else "low"
    best = max(said, read, key=("low", "medium", "high").index)
    return "medium" if best == "high" and place.stale_days else best


def _score(strategy: str, line: Line, fit: Sequence[Line], spec: JobSpec) -> float:
    cost, wall_s = line.bill.cost_microusd.expected, line.bill.wall_s.expected
    match strategy:
        case "fastest":
            return wall_s
        case "balanced":
            least = min(other.bill.cost_microusd.expected for other in fit)
            quickest = min(other.bill.wall_s.expected for other in fit)
            return cost / max(1.0, least) + wall_s / max(1.0, quickest)
        case "preferred":
            order = [*spec.placement.fallbacks]
            backend = line.place.offer.backend
            return (order.index(backend) if backend in order else len(order)) * 1e15 + cost
        case "queue":
            return (not line.place.own) * 1e15 + cost
        case _:
            return cost


def _order(line: Line) -> tuple[float, float, float, str, str, str, bool]:
    offer = line.place.offer
    tie = (line.bill.cost_microusd.expected, line.bill.wall_s.expected)
    return line.score, *tie, offer.backend, offer.name, offer.region, offer.interruptible
