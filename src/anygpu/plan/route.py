"""Rank the offers for a job. No I/O: the same question always gets the same answer."""

from collections.abc import Sequence
from dataclasses import dataclass

from anygpu.events.facts import Offer
from anygpu.spec.model import Gpu, JobSpec, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """An offer with its place in the plan, or the reason it is not in it."""

    offer: Offer
    score: float
    rejected: str = ""  # never fits
    waits: str = ""  # fits, but not now


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every offer considered, best first."""

    ranked: tuple[Ranked, ...]

    @property
    def choice(self) -> Offer | None:
        return next((r.offer for r in self.ranked if not r.rejected and not r.waits), None)

    @property
    def reason(self) -> str:
        """Why nothing can start now, in words for the person who waits."""
        waits = [r.waits for r in self.ranked if r.waits]
        rejected = [f"{r.offer.backend}: {r.rejected}" for r in self.ranked if r.rejected]
        if waits:
            return waits[0]
        return "; ".join(rejected) or "no backend is configured"


def route(spec: JobSpec, offers: Sequence[Offer]) -> Plan:
    """A free slot of one's own first, else the cheapest; ordered fallbacks when they are given."""
    ranked = sorted((rank(spec, offer) for offer in offers), key=_order)
    return Plan(ranked=tuple(ranked))


def rank(spec: JobSpec, offer: Offer) -> Ranked:
    why_not = unfit(spec, offer)
    waits = "" if why_not or offer.free is None or offer.free > 0 else offer.wait_reason or "no free slot"
    return Ranked(offer=offer, score=_score(spec, offer), rejected=why_not, waits=waits)


def unfit(spec: JobSpec, offer: Offer) -> str:
    """Why the offer can never take the job; empty when it can."""
    placement = spec.placement
    if placement.allowed and offer.backend not in placement.allowed:
        return "not among the allowed backends"
    if offer.backend in placement.forbidden:
        return "forbidden by the job"
    if placement.region and offer.region != placement.region:
        return f"is in region {offer.region or 'none'}, not {placement.region}"
    if placement.instance_type and offer.name != placement.instance_type:
        return f"is a {offer.name}, not a {placement.instance_type}"
    if spec.image and not offer.containers:
        return "runs no container images"
    if placement.interruptible == "no" and offer.interruptible:
        return "can be interrupted"
    return too_small(spec.resources, offer)


def too_small(need: Resources, offer: Offer) -> str:
    why_not = _gpu_too_small(need.gpu, offer) if need.gpu and need.gpu.count else ""
    if why_not:
        return why_not
    for what, wanted, has in (
        ("CPUs", need.cpus, offer.cpus),
        ("GiB of memory", need.memory_gib, offer.memory_gib),
        ("GiB of disk", need.disk_gib, offer.disk_gib),
    ):
        if wanted and has and wanted > has:
            return f"has {has:g} {what}, the job needs {wanted:g}"
    return ""


def _gpu_too_small(gpu: Gpu, offer: Offer) -> str:
    if gpu.count > offer.gpu_count:
        has = f"{offer.gpu_count} GPUs" if offer.gpu_count else "no GPU"
        return f"has {has}, the job needs {gpu.count}"
    if gpu.kind and gpu.kind.lower() not in offer.gpu_kind.lower():
        return f"has {offer.gpu_kind}, the job needs {gpu.kind}"
    if gpu.memory_gib and offer.gpu_memory_gib and gpu.memory_gib > offer.gpu_memory_gib:
        return f"has {offer.gpu_memory_gib:g} GiB a GPU, the job needs {gpu.memory_gib:g}"
    return ""


def _score(spec: JobSpec, offer: Offer) -> float:
    """Lower is better."""
    order = [*spec.placement.fallbacks]
    preferred = order.index(offer.backend) if offer.backend in order else len(order)
    return preferred * 1e12 + offer.price_microusd_per_hour + offer.expected_wait_s


def _order(ranked: Ranked) -> tuple[bool, bool, float, str, str]:
    offer = ranked.offer
    return bool(ranked.rejected), bool(ranked.waits), ranked.score, offer.backend, offer.name
