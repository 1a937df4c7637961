"""Rank the offers for a job. No I/O: the same question always gets the same answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anygpu.events.offers import MICROUSD, Offer, OfferKey
from anygpu.plan.hardware import gpus
from anygpu.plan.offers.candidates import Location, location_of
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Gpu, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConstraints:
    """What is true of one job at this moment, beside its spec."""

    resumable: bool = False  # it has a checkpoint to go on from
    budget_left_microusd: int | None = None  # of its budget
    min_run_s: int = 0  # how much time a launch must be able to pay for
    preferred_backend: str = ""  # the backend it is to move to
    preferred_offer: OfferKey | None = None  # the very place it is to move to
    paid_wait_reason: str = ""  # why it may take no paid place now
    own_wait_reason: str = ""  # why it may take no place of one's own now
    avoided: frozenset[OfferKey] = frozenset()  # took a machine back a moment ago: others first
    cooldowns: tuple[tuple[OfferKey, str], ...] = ()  # refused a launch a moment ago, and why


NO_CONSTRAINTS = JobConstraints()
NOT_ALLOWED = "not among the allowed backends"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferScore:
    """What comparing the whole bills says of an offer: lower is better, by the job's strategy."""

    score: float
    rejection: str = ""  # by a prediction that is sure enough


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """An offer with its place in the plan, or the reason it is not in it."""

    offer: Offer
    preference: int  # among the backends it names
    score: float
    rejection: str = ""  # never fits
    wait_reason: str = ""  # fits, but not now
    full: bool = False  # what it waits for is a slot
    unaffordable: bool = False  # it would fit, were there more of the budget left
    avoided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every offer considered, best first."""

    ranked: tuple[FitResult, ...]

    @property
    def choice(self) -> Offer | None:
        return next((r.offer for r in self.ranked if not r.rejection and not r.wait_reason), None)

    @property
    def beyond_budget(self) -> bool:
        """Nothing is in the way of every place that fits but the budget."""
        unaffordable = [r for r in self.ranked if r.unaffordable]
        return bool(unaffordable) and all(r.rejection for r in self.ranked)

    @property
    def reason(self) -> str:
        """Why nothing can start now, in words for the person who waits."""
        waits = [r.wait_reason for r in self.ranked if r.wait_reason]
        if waits:
            return waits[0]
        relevant = [r for r in self.ranked if r.rejection not in ("", NOT_ALLOWED)] or self.ranked
        rejected = dict.fromkeys(f"{r.offer.backend}: {r.rejection}" for r in relevant if r.rejection)
        return "; ".join(rejected) or "no backend is configured"


def make_plan(
    spec: JobSpec,
    offers: Sequence[Offer],
    constraints: JobConstraints = NO_CONSTRAINTS,
    worth: Mapping[OfferKey, OfferScore] | None = None,
) -> Plan:
    """A free slot of one's own first, else the cheapest; ordered fallbacks when they are given.

    `worth`: from a comparison of whole bills; without it an offer counts by its price.
    """
    scores = worth or {}
    ranked = sorted((fit(spec, offer, constraints, scores.get(offer.key)) for offer in offers), key=_sort_key)
    return Plan(ranked=tuple(ranked))


def fit(
    spec: JobSpec, offer: Offer, constraints: JobConstraints = NO_CONSTRAINTS, worth: OfferScore | None = None
) -> FitResult:
    why_not = (
        unfit_reason(spec, offer, resumable=constraints.resumable)
        or _not_owned_reason(spec, offer)
        or (worth.rejection if worth else "")
    )
    too_dear = "" if why_not else _over_budget_reason(offer, constraints)
    full = not why_not and offer.free is not None and offer.free <= 0
    waits = (offer.wait_reason or "no free slot") if full else _wait_reason(offer, constraints)
    return FitResult(
        offer=offer,
        preference=_preference(spec, offer, constraints),
        score=_price_score(offer) if worth is None else worth.score,
        rejection=why_not or too_dear,
        wait_reason="" if why_not or too_dear else waits,
        full=full,
        unaffordable=bool(too_dear),
        avoided=offer.key in constraints.avoided,
    )


def _wait_reason(offer: Offer, constraints: JobConstraints) -> str:
    if offer.is_paid and constraints.paid_wait_reason:
        return constraints.paid_wait_reason
    if constraints.own_wait_reason and not offer.is_paid and offer.free is not None:
        return constraints.own_wait_reason
    return next((reason for location, reason in constraints.cooldowns if location == offer.key), "")


def _over_budget_reason(offer: Offer, constraints: JobConstraints) -> str:
    if constraints.budget_left_microusd is None or not offer.is_paid:
        return ""
    least = offer.billing.cost_microusd(offer.price_microusd_per_hour, constraints.min_run_s)
    if least <= constraints.budget_left_microusd:
        return ""
    return f"would cost ${least / MICROUSD:.4f} before it is of use, more than is left of the budget"


def unfit_reason(spec: JobSpec, offer: Offer, *, resumable: bool = False) -> str:
    """Why the offer can never take the job; empty when it can."""
    return (
        unsuitable_reason(spec, offer, resumable=resumable)
        or too_small_reason(spec.resources, offer)
        or location_mismatch(spec, location_of(offer))
    )


def unsuitable_reason(spec: JobSpec, offer: Offer, *, resumable: bool = False) -> str:
    """Why no machine of its sort will do, whatever its size and wherever it stands."""
    placement = spec.placement
    if placement.allowed and offer.backend not in placement.allowed:
        return NOT_ALLOWED
    if offer.backend in placement.forbidden:
        return "forbidden by the job"
    if offer.refused:
        return offer.refused
    if offer.max_run_or_inf_s <= 0:
        return "has no time left for a run: what was reserved is about to end"
    if spec.image and not offer.containers:
        return "runs no container images"
    return _interruption_reason(spec, offer, resumable=resumable) or _gpu_mismatch(spec.resources.gpu, offer)


def location_mismatch(spec: JobSpec, location: Location) -> str:
    """Why it is not the region, the zone or the machine that the job asks for by name."""
    return next(
        (
            requested.mismatch
            for requested in requested_names(spec)
            if location[requested.field] != requested.name
        ),
        "",
    )


class RequestedName(NamedTuple):
    """Something that a job asks for by name."""

    field: int  # of `Where`
    name: str
    mismatch: str


def requested_names(spec: JobSpec) -> tuple[RequestedName, ...]:
    requested = spec.placement
    every = (
        RequestedName(0, requested.region or "", f"is not in region {requested.region}"),
        RequestedName(1, requested.zone or "", f"is not in zone {requested.zone}, as far as it says"),
        RequestedName(2, requested.instance_type or "", f"is not a {requested.instance_type}"),
    )
    return tuple(each for each in every if each.name)


def _not_owned_reason(spec: JobSpec, offer: Offer) -> str:
    waits = spec.placement.strategy == "queue" and offer.is_paid and offer.free is None
    return "is rented; the strategy `queue` waits for machines of one's own" if waits else ""


def _interruption_reason(spec: JobSpec, offer: Offer, *, resumable: bool) -> str:
    requested_count = spec.placement.interruptible
    if requested_count == "no" and offer.interruptible:
        return "can be interrupted"
    if requested_count == "auto" and offer.interruptible and not (resumable or has_resume_path(spec)):
        return (
            "can be interrupted, and nothing shows that the job can resume; give checkpoint.paths,"
            " or say interruptible: yes"
        )
    return ""


def has_resume_path(spec: JobSpec) -> bool:
    """Whether what was asked says how the job goes on after an interruption."""
    return bool(spec.checkpoint.paths or spec.checkpoint.resume_args or spec.trainer)


def too_small_reason(need: Resources, offer: Offer) -> str:
    """What it has too little of beside GPUs; a size that is not known is given the benefit of the doubt."""
    for what, requested_count, has in (
        ("CPUs", need.cpus, offer.cpus),
        ("GiB of memory", need.memory_gib, offer.memory_gib),
        ("GiB of disk", need.disk_gib, offer.disk_gib),
    ):
        if requested_count and has and requested_count > has:
            return f"has {has:g} {what}, the job needs {requested_count:g}"
    return ""


def _gpu_mismatch(gpu: Gpu | None, offer: Offer) -> str:
    if gpu is None or not gpu.count:
        return ""
    if gpu.count > offer.gpu_count:
        has = f"{offer.gpu_count} GPUs" if offer.gpu_count else "no GPU"
        return f"has {has}, the job needs {gpu.count}"
    if gpu.kind and not _is_gpu_kind(gpu.kind, offer.gpu_kind):
        return f"has {offer.gpu_kind}, the job needs {gpu.kind}"
    if gpu.memory_gib and offer.gpu_memory_gib and gpu.memory_gib > offer.gpu_memory_gib:
        return f"has {offer.gpu_memory_gib:g} GiB a GPU, the job needs {gpu.memory_gib:g}"
    return ""


def _is_gpu_kind(requested: str, offered: str) -> bool:
    """An `A10` is no `A100`; of a kind nobody has figures for, a part of its name will do."""
    unknown = not gpus.is_known(requested) and requested.lower() in offered.lower()
    return gpus.matches(requested, offered) or unknown


def _preference(spec: JobSpec, offer: Offer, constraints: JobConstraints) -> int:
    """Lower is better."""
    if offer.key == constraints.preferred_offer:
        return -2
    if constraints.preferred_backend and offer.backend == constraints.preferred_backend:
        return -1
    order = [*spec.placement.fallbacks]
    return order.index(offer.backend) if offer.backend in order else len(order)


def _price_score(offer: Offer) -> float:
    return offer.price_microusd_per_hour + offer.expected_wait_s


def _sort_key(ranked: FitResult) -> tuple[bool, bool, bool, int, float, str, str]:
    offer = ranked.offer
    out = bool(ranked.rejection)
    waits = bool(ranked.wait_reason)
    return out, waits, ranked.avoided, ranked.preference, ranked.score, offer.backend, offer.name
