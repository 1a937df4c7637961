"""Explain in one sentence why none of the configured backends can ever run a job. Pure functions."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anygpu.events.offers import Offer
from anygpu.plan.hardware import gpus
from anygpu.plan.offers.candidates import location_of
from anygpu.plan.offers.fit import is_gpu_kind, requested_names, unfit_reason
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.shorthand import STRATEGIES
from anygpu.suggest import suggestion

ADD_BACKEND = (
    "Add a machine with `anygpu host add user@host`, or a cloud account or cluster with `anygpu backend add`."
)
MAX_REASONS = 3
LOCATION_FIELDS = ("region", "zone", "machine type")


class Misfit(NamedTuple):
    """The reason why no backend can run a job, and what the user can do."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedOffers:
    """Offers of one backend that cannot run a job for the same reason."""

    backend: str
    reason: str
    count: int


def unknown_backend(spec: JobSpec, configured: Collection[str]) -> Misfit | None:
    """Return what is wrong if the job names a backend that is not configured; None if it names none."""
    named = (*spec.placement.allowed_backends, *spec.placement.fallbacks)
    name = next((each for each in named if each not in configured), None)
    if name is None:
        return None
    others = f"Configured backends: {', '.join(sorted(configured)) or 'none'}. {ADD_BACKEND}"
    return Misfit(
        f"There is no backend or strategy {name!r}.", suggestion(name, [*STRATEGIES, *configured], others)
    )


def rejected_offers(
    spec: JobSpec, offers: Sequence[Offer], *, resumable: bool | None
) -> list[RejectedOffers]:
    """Return why the offers cannot run the job, by backend; the most frequent reason of a backend first."""
    counts = Counter((offer.backend, unfit_reason(spec, offer, resumable=resumable)) for offer in offers)
    return [
        RejectedOffers(backend=backend, reason=reason, count=count)
        for (backend, reason), count in sorted(counts.items(), key=lambda each: (each[0][0], -each[1]))
        if reason
    ]


def describe_misfit(
    spec: JobSpec, offers: Sequence[Offer], *, resumable: bool | None, clouds: Collection[str] = ()
) -> Misfit:
    """Return why none of the offers can run the job.

    `clouds` are the kinds of backends that rent the requested GPU and are not configured.
    """
    return (
        _gpu_misfit(spec, offers, clouds)
        or _nodes_misfit(spec, offers)
        or _location_misfit(spec, offers)
        or _other_misfit(spec, offers, resumable=resumable)
    )


def _gpu_misfit(spec: JobSpec, offers: Sequence[Offer], clouds: Collection[str]) -> Misfit | None:
    gpu = spec.resources.gpu
    if gpu is None or not gpu.count:
        return None
    if gpu.kind and not any(each.gpu_count and is_gpu_kind(gpu.kind, each.gpu_kind) for each in offers):
        return _kind_misfit(gpu.kind, offers, clouds)
    most = max((each.gpu_count for each in offers), default=0)
    if gpu.count <= most:
        return None
    wanted = f"{gpu.count} GPU{'s' if gpu.count > 1 else ''}"
    if not most:
        return Misfit(f"The job needs {wanted}, and no configured backend has a GPU.", _add_hint(clouds))
    return Misfit(
        f"The job needs {wanted} in one machine, and the largest machine of the configured backends has {most}.",
        _add_hint(clouds),
    )


def _nodes_misfit(spec: JobSpec, offers: Sequence[Offer]) -> Misfit | None:
    nodes, most = spec.resources.nodes, max((each.max_nodes for each in offers), default=0)
    if not offers or nodes <= most:
        return None
    given = f"{most} machines" if most > 1 else "one machine"
    return Misfit(
        f"The job needs {nodes} machines (resources.nodes), and no configured backend gives one job more than {given}.",
        "Use fewer nodes, or add a backend with several machines: docs/how-to/several-gpus.md lists them.",
    )


def _kind_misfit(kind: str, offers: Sequence[Offer], clouds: Collection[str]) -> Misfit:
    offered = sorted({gpus.canonical_name(each.gpu_kind) for each in offers if each.gpu_kind})
    if gpus.is_known(kind):
        have = f"; they have {', '.join(offered)}" if offered else ""
        return Misfit(f"No configured backend has the GPU {kind}{have}.", _add_hint(clouds))
    near = gpus.closest_kind(kind)
    hint = f"Did you mean {near!r}?" if near else "`anygpu catalog show` lists the known GPUs."
    return Misfit(f"There is no GPU {kind!r}.", hint)


def _add_hint(clouds: Collection[str]) -> str:
    if not clouds:
        return ADD_BACKEND
    first, *_ = names = sorted(clouds)
    rent = "rents" if len(names) == 1 else "rent"
    return (
        f"{', '.join(names)} {rent} it: `anygpu backend add {first} --kind {first}`."
        " `anygpu host add user@host` adds a machine of your own."
    )


def _location_misfit(spec: JobSpec, offers: Sequence[Offer]) -> Misfit | None:
    for field, name, _ in requested_names(spec):
        known = sorted({location_of(offer)[field] for offer in offers} - {""})
        if name not in known:
            listed = f"There are: {', '.join(known[:10])}." if known else ADD_BACKEND
            what = LOCATION_FIELDS[field]
            return Misfit(f"No configured backend has the {what} {name!r}.", suggestion(name, known, listed))
    return None


def _other_misfit(spec: JobSpec, offers: Sequence[Offer], *, resumable: bool | None) -> Misfit:
    if not offers:
        return Misfit("No configured backend has a machine for this job.", ADD_BACKEND)
    reasons = [f"{each.backend} {each.reason}" for each in rejected_offers(spec, offers, resumable=resumable)]
    more = f"; and {len(reasons) - MAX_REASONS} more reasons" if len(reasons) > MAX_REASONS else ""
    return Misfit(
        f"No configured backend can run this job: {'; '.join(reasons[:MAX_REASONS])}{more}.",
        "`anygpu plan --rejected` lists the reason for each offer.",
    )
