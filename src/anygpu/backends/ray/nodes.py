"""Build offers from the nodes of a Ray cluster.

Ray schedules a job on any node that has the resources, so equal nodes are one offer. `free` comes from the usage that
the cluster reports every 5 seconds, minus the jobs that were submitted since. Without a report it is not known.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anygpu.backends.ray.options import RayOptions
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

GIB = 1024**3
MAX_AMOUNT = 2**80
ACCELERATOR = "accelerator_type:"
ACCELERATOR_LABEL = "ray.io/accelerator-type"
KIND_SHARE = (
    0.001  # the amount of an accelerator type that a job reserves, to be placed on a node that has it
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayDemand:
    """The resources that a job reserves on one node."""

    gpus: int
    cpus: float
    memory_bytes: int

    @classmethod
    def of(cls, need: Resources, options: RayOptions) -> "RayDemand":
        return cls(
            gpus=need.gpu.count if need.gpu else 0,
            cpus=need.cpus or options.cpus,
            memory_bytes=math.ceil((need.memory_gib or 0) * GIB),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A node that is alive: its resources, and how much of them is in use."""

    id: str
    accelerator: str  # the GPU kind as Ray spells it; empty: unknown or none
    is_labelled: bool = False  # only a label has the GPU kind, and no resource
    gpus: float
    cpus: float
    memory_bytes: float
    used_gpus: float = 0
    used_cpus: float = 0
    used_memory_bytes: float = 0
    is_reported: bool = True  # False: it is not known what is in use

    @property
    def shape(self) -> tuple[str, int, int]:
        """What equal nodes have in common. Memory is left out: Ray sets it to what was free, so it differs."""
        return self.accelerator, int(self.gpus), int(self.cpus)

    def count_fitting(self, demand: RayDemand) -> int:
        """Return how many jobs with this demand could start on the node now."""
        pairs = (
            (demand.gpus, self.gpus - self.used_gpus),
            (demand.cpus, self.cpus - self.used_cpus),
            (demand.memory_bytes, self.memory_bytes - self.used_memory_bytes),
        )
        return min(max(0, math.floor(left / wanted + 1e-6)) for wanted, left in pairs if wanted)

    def reserve(self, demand: RayDemand) -> "RayNode":
        """Return the node as it is when it also runs a job with this demand."""
        return replace(
            self,
            used_gpus=self.used_gpus + demand.gpus,
            used_cpus=self.used_cpus + demand.cpus,
            used_memory_bytes=self.used_memory_bytes + demand.memory_bytes,
        )


def parse_nodes(listed: Iterable[Mapping[str, Any]], usage: Mapping[str, Any]) -> list[RayNode]:
    """Return the nodes that are alive and have CPUs or GPUs, from the answers of the State API and the usage report."""
    return [
        _parse_node(node, usage)
        for node in listed
        if node.get("state") == "ALIVE" and isinstance(node.get("resources_total"), dict)
    ]


def _parse_node(node: Mapping[str, Any], usage: Mapping[str, Any]) -> RayNode:
    total, labels = node["resources_total"], _mapping(node.get("labels"))
    node_id = str(node.get("node_id", ""))
    # The autoscaler knows nodes by their addresses. Without one, the report has their ids.
    report = usage.get(node_id, usage.get(str(node.get("node_ip", ""))))
    used = _mapping(report)
    named = sorted(name[len(ACCELERATOR) :] for name in total if name.startswith(ACCELERATOR))
    return RayNode(
        id=node_id,
        # A node may have two of them, such as A100 and A100-80G: the longer one says more.
        accelerator=max(named, key=len, default="") or str(labels.get(ACCELERATOR_LABEL) or ""),
        is_labelled=not named,
        gpus=_number(total.get("GPU")),
        cpus=_number(total.get("CPU")),
        memory_bytes=_number(total.get("memory")),
        used_gpus=_used(used, "GPU"),
        used_cpus=_used(used, "CPU"),
        used_memory_bytes=_used(used, "memory"),
        is_reported=isinstance(report, dict),
    )


def _used(usage: Mapping[str, Any], resource: str) -> float:
    pair = usage.get(resource)
    return _number(pair[0]) if isinstance(pair, list) and pair else 0.0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    """Return an amount of a resource; 0 for what is none, such as a number that no float can hold."""
    return float(value) if isinstance(value, int | float) and 0 <= value < MAX_AMOUNT else 0.0


def build_offers(
    nodes: Iterable[RayNode],
    need: Resources,
    *,
    backend: str,
    options: RayOptions,
    submitted: Mapping[str, Sequence[RayDemand]],
) -> list[Offer]:
    """Return one offer for each group of equal nodes.

    `submitted` has the demands of jobs, by offer name, that the usage report does not show yet.
    """
    groups: dict[tuple[str, int, int], list[RayNode]] = {}
    for node in nodes:
        if node.cpus or node.gpus:
            groups.setdefault(node.shape, []).append(node)
    demand = RayDemand.of(need, options)
    return [
        _build_offer(group, demand, backend, options, submitted.get(offer_name(group[0]), ()))
        for _, group in sorted(groups.items())
    ]


def offer_name(node: RayNode) -> str:
    """Return the name of the offer for nodes of this shape, such as `2xT4-8cpu` or `8cpu`."""
    cards = f"{node.gpus:g}x{node.accelerator or 'GPU'}-" if node.gpus else ""
    return f"{cards}{node.cpus:g}cpu"


def _build_offer(
    group: Sequence[RayNode],
    demand: RayDemand,
    backend: str,
    options: RayOptions,
    submitted: Sequence[RayDemand],
) -> Offer:
    first = group[0]
    kind = first.accelerator if first.gpus else ""
    free = _count_free(group, demand, submitted)
    return Offer(
        backend=backend,
        name=offer_name(first),
        gpu_kind=kind,
        gpu_count=int(first.gpus),
        cpus=first.cpus,
        memory_gib=math.floor(min(node.memory_bytes for node in group) / GIB),
        price_microusd_per_hour=options.job_price_microusd(kind, demand.gpus),
        free=free,
        own=True,
        wait_reason=_wait_reason(group, demand, kind, free, len(submitted)),
        lease_s=options.lease_s,
        shared=True,
    )


def _count_free(group: Sequence[RayNode], demand: RayDemand, submitted: Sequence[RayDemand]) -> int | None:
    """Return how many jobs could start now. None: unknown, because the nodes that may have room are not reported."""
    free = _count_places([node for node in group if node.is_reported], demand, submitted)
    has_other = any(node.count_fitting(demand) for node in group if not node.is_reported)
    return None if not free and has_other else free


def _count_places(group: Sequence[RayNode], demand: RayDemand, submitted: Sequence[RayDemand]) -> int:
    """Return how many jobs could start now, after those that Ray does not count yet have their resources.

    These jobs are placed on the first node with room, the largest first. One that fits on no node waits in Ray's queue
    and takes the next place.
    """
    nodes, waiting = list(group), 0
    for earlier in sorted(submitted, key=lambda job: (job.gpus, job.cpus, job.memory_bytes), reverse=True):
        index = next((index for index, node in enumerate(nodes) if node.count_fitting(earlier)), None)
        if index is None:
            waiting += 1
        else:
            nodes[index] = nodes[index].reserve(earlier)
    return max(0, sum(node.count_fitting(demand) for node in nodes) - waiting)


def _wait_reason(
    group: Sequence[RayNode], demand: RayDemand, kind: str, free: int | None, starting: int
) -> str:
    """Return why no job can start now, or may have to wait; empty if one can start."""
    if free is None:
        return "the cluster does not report what its nodes use, so the job may wait in Ray's queue"
    if free:
        return ""
    if demand.gpus:
        left = sum(node.gpus - node.used_gpus for node in group)
        total = sum(node.gpus for node in group)
        what, wanted = f"{kind} GPUs".strip(), float(demand.gpus)
    else:
        left = sum(node.cpus - node.used_cpus for node in group)
        total = sum(node.cpus for node in group)
        what, wanted = "CPUs", demand.cpus
    nodes = "1 Ray node" if len(group) == 1 else f"{len(group)} Ray nodes"
    text = f"{max(0.0, left):g} of {total:g} {what} of {nodes} are free, the job needs {wanted:g} on one node"
    if left < wanted:
        return text
    return f"{text}, and {_other_reason(starting)}"


def _other_reason(starting: int) -> str:
    if starting:
        return f"{starting} jobs of this server were submitted a few seconds ago"
    return "other resources of the nodes (CPUs, memory) are in use"
