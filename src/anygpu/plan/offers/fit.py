"""Check whether an offer fits a job.

Functions named `..._reason` or `..._mismatch` return why it does not fit, or an empty string if it fits.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from anygpu.events.offers import LOCAL, Offer
from anygpu.plan.analyse.findings import LIKELY, Analysis
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.torch_wheels import torch_mismatch
from anygpu.plan.offers.candidates import Location, location_of
from anygpu.spec.checks.trainer import framework_modules
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Gpu, Resources

NOT_ALLOWED = "not among the allowed backends (placement.allowed or --on)"


def unfit_reason(spec: JobSpec, offer: Offer, *, resumable: bool | None = None) -> str:
    """Return why the offer can never run the job.

    `resumable` says whether earlier attempts or the code show that the job can resume. None means that only the
    spec is known.
    """
    return (
        unsuitable_reason(spec, offer, resumable=resumable)
        or too_small_reason(spec.resources, offer)
        or location_mismatch(spec, location_of(offer))
    )


def unsuitable_reason(spec: JobSpec, offer: Offer, *, resumable: bool | None = None) -> str:
    """Return why a machine with this GPU and backend does not fit, whatever its size and location."""
    placement = spec.placement
    if excluded := excluded_backend_reason(spec, offer):
        return excluded
    if offer.refused:
        return offer.refused
    if spec.is_only_in_place and offer.backend != LOCAL:
        return f"has no copy of the job's files: the job runs in place, in {spec.in_place}; submit it with --snapshot"
    if offer.max_run_or_inf_s <= 0:
        return "has no time left for a run: its reservation is about to end"
    if placement.strategy == "queue" and offer.is_rented:
        return "is a rented machine; the strategy `queue` uses own machines only"
    if spec.image and not offer.containers:
        return "does not run container images"
    if placement.dedicated and offer.shared:
        return "is shared with other jobs or customers; the job requires a dedicated machine"
    if spec.resources.nodes > offer.max_nodes:
        return too_few_nodes_reason(spec.resources.nodes, offer)
    if offer.missing_modules and (missing := missing_modules_reason(spec, offer.missing_modules)):
        return missing
    return (
        _interruption_reason(spec, offer, resumable=resumable)
        or _gpu_mismatch(spec.resources.gpu, offer)
        or _required_torch_mismatch(spec, offer)
    )


def excluded_backend_reason(spec: JobSpec, offer: Offer) -> str:
    """Return why the job may not use the offer's backend; empty if it may."""
    allowed = spec.placement.allowed_backends
    if allowed and offer.backend not in allowed:
        return NOT_ALLOWED
    return "forbidden by the job (placement.forbidden)" if offer.backend in spec.placement.forbidden else ""


def too_few_nodes_reason(nodes: int, offer: Offer) -> str:
    """Return why one attempt cannot get `nodes` machines of this offer."""
    if offer.max_nodes == 1:
        return f"runs a job on one machine only, the job needs {nodes} (resources.nodes)"
    return f"gives a job at most {offer.max_nodes} machines, the job needs {nodes} (resources.nodes)"


def missing_modules_reason(spec: JobSpec, missing: Collection[str]) -> str:
    """Return which of the `missing` modules the job's trainer needs, and how to install them."""
    needed = {module: extra for module, extra in framework_modules(spec).items() if module in missing}
    if not needed:
        return ""
    extras = ",".join(dict.fromkeys(needed.values()))
    return (
        f"has no {', '.join(needed)}, which trainer {spec.trainer} needs;"
        f" run pip install 'anygpu[{extras}]' for the Python of the server"
    )


def location_mismatch(spec: JobSpec, location: Location) -> str:
    """Return in which of region, zone and machine type the location differs from what the job requests."""
    names = requested_names(spec)
    return next((each.mismatch for each in names if location[each.field] != each.name), "")


class RequestedName(NamedTuple):
    """A region, zone or machine type that a job requests by name."""

    field: int  # index in `Location`
    name: str
    mismatch: str


def requested_names(spec: JobSpec) -> tuple[RequestedName, ...]:
    requested = spec.placement
    every = (
        RequestedName(0, requested.region or "", f"is not in region {requested.region}"),
        RequestedName(1, requested.zone or "", f"is not known to be in zone {requested.zone}"),
        RequestedName(2, requested.instance_type or "", f"is not a {requested.instance_type}"),
    )
    return tuple(each for each in every if each.name)


def _interruption_reason(spec: JobSpec, offer: Offer, *, resumable: bool | None) -> str:
    allowed = spec.placement.interruptible
    if allowed == "no" and offer.interruptible:
        return "can be interrupted (spot), and the job does not allow that"
    if allowed != "auto" or not offer.interruptible:
        return ""
    if resumable is False:
        return (
            "can be interrupted, and the job started from the beginning after its last interruption;"
            " set interruptible: yes to accept this"
        )
    if not (resumable or has_resume_path(spec)):
        return f"can be interrupted, and {NO_RESUME_PATH}, or interruptible: yes"
    return ""


def offer_torch_mismatch(requirements: Iterable[str], offer: Offer) -> str:
    """Return why the torch that the requirements install does not run on the offer's GPU or driver."""
    if not offer.gpu_count:
        return ""
    gpu = gpus.spec(offer.gpu_kind, memory_gib=offer.gpu_memory_gib) if offer.gpu_kind else None
    return torch_mismatch(requirements, gpu, offer.driver)


def _required_torch_mismatch(spec: JobSpec, offer: Offer) -> str:
    """Check the packages that the spec lists. Those in a requirements file are known only to the analysis."""
    listed = spec.requirements if not isinstance(spec.requirements, str) else ()
    return offer_torch_mismatch(listed, offer) if listed else ""


NO_RESUME_PATH = (
    "nothing shows that the job can resume; load the checkpoint that anygpu.resume_path() returns,"
    " or set checkpoint.resume_args"
)


def has_resume_path(spec: JobSpec, analysis: Analysis | None = None) -> bool:
    """Return whether a restarted job is expected to continue from its checkpoint.

    True for a trainer, for `checkpoint.resume_args`, and for code that loads its saved state. Checkpoint files
    alone do not suffice: without code that loads them, a restarted script starts from the beginning.
    """
    return bool(spec.trainer or spec.checkpoint.resume_args) or code_resumes(spec, analysis)


def code_resumes(spec: JobSpec, analysis: Analysis | None) -> bool:
    """Return whether the analysed code saves its state and loads it when it starts.

    A `--resume` option counts only with `checkpoint.resume_args`, because nothing else passes the option.
    """
    loads = analysis.resuming if analysis is not None else None
    if analysis is None or loads is None or not loads.value or loads.confidence < LIKELY:
        return False
    return bool(spec.checkpoint.paths) or (
        analysis.checkpointing is not None and analysis.checkpointing.value
    )


def too_small_reason(need: Resources, offer: Offer) -> str:
    """Return why the offer has too few CPUs, or too little memory or disk.

    Unknown values count as sufficient.
    """
    for what, needed, has in (
        ("CPUs", need.cpus, offer.cpus),
        ("GiB of memory", need.memory_gib, offer.memory_gib),
        ("GiB of disk", need.disk_gib, offer.disk_gib),
    ):
        if needed and has and needed > has:
            return f"has {has:g} {what}, the job needs {needed:g}"
    return ""


def _gpu_mismatch(gpu: Gpu | None, offer: Offer) -> str:
    if gpu is None or not gpu.count:
        return ""
    if gpu.count > offer.gpu_count:
        has = f"{offer.gpu_count} GPU{'s' * (offer.gpu_count > 1)}" if offer.gpu_count else "no GPU"
        return f"has {has}, the job needs {gpu.count}"
    if gpu.kind and not is_gpu_kind(gpu.kind, offer.gpu_kind):
        return f"has {offer.gpu_kind}, the job needs {gpu.kind}"
    if gpu.memory_gib and offer.gpu_memory_gib and gpu.memory_gib > offer.gpu_memory_gib:
        return f"has {offer.gpu_memory_gib:g} GiB per GPU, the job needs {gpu.memory_gib:g}"
    return ""


def is_gpu_kind(requested: str, offered: str) -> bool:
    """Return whether the GPU is of the requested model.

    A requested model that is not in the GPU table matches every GPU whose name contains the requested name.
    """
    matches_part = not gpus.is_known(requested) and requested.lower() in offered.lower()
    return gpus.matches(requested, offered) or matches_part
