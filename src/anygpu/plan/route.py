"""Rank the offers for a job. No I/O: the same question always gets the same answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anygpu.events.facts import MICROUSD, Offer, Place
from anygpu.plan import gpus
from anygpu.plan.places import Where, where
from anygpu.spec.model import Gpu, JobSpec, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is true of one job at this moment, beside its spec."""

    resumable: bool = False  # it has a checkpoint to go on from
    left_microusd: int | None = None  # of its budget
    least_s: int = 0  # how much time a launch must be able to pay for
    prefer: str = ""  # the backend it is to move to
    better: Place | None = None  # the very place it is to move to
    paid_waits: str = ""  # why it may take no paid place now
    own_waits: str = ""  # why it may take no place of one's own now
    avoided: frozenset[Place] = frozenset()  # took a machine back a moment ago: others first
    closed: tuple[tuple[Place, str], ...] = ()  # refused a launch a moment ago, and why


ORDINARY = Circumstances()
NOT_ALLOWED = "not among the allowed backends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What comparing the whole bills says of an offer: lower is better, by the job's strategy."""

    score: float
    rejected: str = ""  # by a prediction that is sure enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """An offer with its place in the plan, or the reason it is not in it."""

    offer: Offer
    preferred: int  # among the backends it names
    score: float
    rejected: str = ""  # never fits
    waits: str = ""  # fits, but not now
    full: bool = False  # what it waits for is a slot
    unaffordable: bool = False  # it would fit, were there more of the budget left
    avoided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every offer considered, best first."""

    ranked: tuple[Ranked, ...]

    @property
    def choice(self) -> Offer | None:
        return next((r.offer for r in self.ranked if not r.rejected and not r.waits), None)

    @property
    def beyond_budget(self) -> bool:
        """Nothing is in the way of every place that fits but the budget."""
        unaffordable = [r for r in self.ranked if r.unaffordable]
        return bool(unaffordable) and all(r.rejected for r in self.ranked)

    @property
    def reason(self) -> str:
        """Why nothing can start now, in words for the person who waits."""
        waits = [r.waits for r in self.ranked if r.waits]
        if waits:
            return waits[0]
        told = [r for r in self.ranked if r.rejected not in ("", NOT_ALLOWED)] or self.ranked
        rejected = dict.fromkeys(f"{r.offer.backend}: {r.rejected}" for r in told if r.rejected)
        return "; ".join(rejected) or "no backend is configured"


def route(
    spec: JobSpec,
    offers: Sequence[Offer],
    now: Circumstances = ORDINARY,
    worth: Mapping[Place, Worth] | None = None,
) -> Plan:
    """A free slot of one's own first, else the cheapest; ordered fallbacks when they are given.

    `worth`: from a comparison of whole bills; without it an offer counts by its price.
    """
    known = worth or {}
    ranked = sorted((rank(spec, offer, now, known.get(offer.place)) for offer in offers), key=_order)
    return Plan(ranked=tuple(ranked))


def rank(spec: JobSpec, offer: Offer, now: Circumstances = ORDINARY, worth: Worth | None = None) -> Ranked:
    why_not = (
        unfit(spec, offer, resumable=now.resumable)
        or _rented(spec, offer)
        or (worth.rejected if worth else "")
    )
    too_dear = "" if why_not else _too_dear(offer, now)
    full = not why_not and offer.free is not None and offer.free <= 0
    waits = (offer.wait_reason or "no free slot") if full else _waits(offer, now)
    return Ranked(
        offer=offer,
        preferred=_preferred(spec, offer, now),
        score=_price(offer) if worth is None else worth.score,
        rejected=why_not or too_dear,
        waits="" if why_not or too_dear else waits,
        full=full,
        unaffordable=bool(too_dear),
        avoided=offer.place in now.avoided,
    )


def _waits(offer: Offer, now: Circumstances) -> str:
    if offer.paid and now.paid_waits:
        return now.paid_waits
    if now.own_waits and not offer.paid and offer.free is not None:
        return now.own_waits
    return next((reason for place, reason in now.closed if place == offer.place), "")


def _too_dear(offer: Offer, now: Circumstances) -> str:
    if now.left_microusd is None or not offer.paid:
        return ""
    least = offer.billing.cost_microusd(offer.price_microusd_per_hour, now.least_s)
    if least <= now.left_microusd:
        return ""
    return f"would cost ${least / MICROUSD:.4f} before it is of use, more than is left of the budget"


def unfit(spec: JobSpec, offer: Offer, *, resumable: bool = False) -> str:
    """Why the offer can never take the job; empty when it can."""
    return (
        unsuited(spec, offer, resumable=resumable)
        or cramped(spec.resources, offer)
        or elsewhere(spec, where(offer))
    )


def unsuited(spec: JobSpec, offer: Offer, *, resumable: bool = False) -> str:
    """Why no machine of its sort will do, whatever its size and wherever it stands."""
    placement = spec.placement
    if placement.allowed and offer.backend not in placement.allowed:
        return NOT_ALLOWED
    if offer.backend in placement.forbidden:
        return "forbidden by the job"
    if offer.refused:
        return offer.refused
    if offer.longest_s <= 0:
        return "has no time left for a run: what was reserved is about to end"
    if spec.image and not offer.containers:
        return "runs no container images"
    return _interruption(spec, offer, resumable=resumable) or _too_few_gpus(spec.resources.gpu, offer)


def elsewhere(spec: JobSpec, place: Where) -> str:
    """Why it is not the region, the zone or the machine that the job asks for by name."""
    return next((asked.why_not for asked in by_name(spec) if place[asked.field] != asked.name), "")


class Named(NamedTuple):
    """Something that a job asks for by name."""

    field: int  # of `Where`
    name: str
    why_not: str


def by_name(spec: JobSpec) -> tuple[Named, ...]:
    asked = spec.placement
    every = (
        Named(0, asked.region or "", f"is not in region {asked.region}"),
        Named(1, asked.zone or "", f"is not in zone {asked.zone}, as far as it says"),
        Named(2, asked.instance_type or "", f"is not a {asked.instance_type}"),
    )
    return tuple(each for each in every if each.name)


def _rented(spec: JobSpec, offer: Offer) -> str:
    waits = spec.placement.strategy == "queue" and offer.paid and offer.free is None
    return "is rented; the strategy `queue` waits for machines of one's own" if waits else ""


def _interruption(spec: JobSpec, offer: Offer, *, resumable: bool) -> str:
    wanted = spec.placement.interruptible
    if wanted == "no" and offer.interruptible:
        return "can be interrupted"
    if wanted == "auto" and offer.interruptible and not (resumable or shows_resume_path(spec)):
        return (
            "can be interrupted, and nothing shows that the job can resume; give checkpoint.paths,"
            " or say interruptible: yes"
        )
    return ""


def shows_resume_path(spec: JobSpec) -> bool:
    """Whether what was asked says how the job goes on after an interruption."""
    return bool(spec.checkpoint.paths or spec.checkpoint.resume_args or spec.trainer)


def cramped(need: Resources, offer: Offer) -> str:
    """What it has too little of beside GPUs; a size that is not known is given the benefit of the doubt."""
    for what, wanted, has in (
        ("CPUs", need.cpus, offer.cpus),
        ("GiB of memory", need.memory_gib, offer.memory_gib),
        ("GiB of disk", need.disk_gib, offer.disk_gib),
    ):
        if wanted and has and wanted > has:
            return f"has {has:g} {what}, the job needs {wanted:g}"
    return ""


def _too_few_gpus(gpu: Gpu | None, offer: Offer) -> str:
    if gpu is None or not gpu.count:
        return ""
    if gpu.count > offer.gpu_count:
        has = f"{offer.gpu_count} GPUs" if offer.gpu_count else "no GPU"
        return f"has {has}, the job needs {gpu.count}"
    if gpu.kind and not _is_kind(gpu.kind, offer.gpu_kind):
        return f"has {offer.gpu_kind}, the job needs {gpu.kind}"
    if gpu.memory_gib and offer.gpu_memory_gib and gpu.memory_gib > offer.gpu_memory_gib:
        return f"has {offer.gpu_memory_gib:g} GiB a GPU, the job needs {gpu.memory_gib:g}"
    return ""


def _is_kind(asked: str, offered: str) -> bool:
    """An `A10` is no `A100`; of a kind nobody has figures for, a part of its name will do."""
    unknown = not gpus.known(asked) and asked.lower() in offered.lower()
    return gpus.matches(asked, offered) or unknown


def _preferred(spec: JobSpec, offer: Offer, now: Circumstances) -> int:
    """Lower is better."""
    if offer.place == now.better:
        return -2
    if now.prefer and offer.backend == now.prefer:
        return -1
    order = [*spec.placement.fallbacks]
    return order.index(offer.backend) if offer.backend in order else len(order)


def _price(offer: Offer) -> float:
    return offer.price_microusd_per_hour + offer.expected_wait_s


def _order(ranked: Ranked) -> tuple[bool, bool, bool, int, float, str, str]:
    offer = ranked.offer
    out = bool(ranked.rejected)
    waits = bool(ranked.waits)
    return out, waits, ranked.avoided, ranked.preferred, ranked.score, offer.backend, offer.name
