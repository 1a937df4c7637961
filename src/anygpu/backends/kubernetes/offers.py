"""Build the offers of a cluster: one for each group of equal nodes."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.backends.kubernetes.nodes import (
    SPOT_MARKS,
    NodeInfo,
    PodDemand,
    blocking_taint,
    free_amounts,
    read_demand,
    read_node,
    requests_by_node,
)
from anygpu.backends.kubernetes.options import KubernetesOptions, parse_pairs, parse_toleration
from anygpu.backends.kubernetes.quantities import GIB, Amounts, fitting_count
from anygpu.backends.relay.contract import lease_with_relay
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

Json = dict[str, Any]
PLACE_LABEL = "anygpu/place"
MIN_SPOT_GRACE_S = 5.0
MAX_NODES = 64  # pods of one attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """Nodes of the same kind and place, which one offer represents."""

    name: str
    nodes: tuple[NodeInfo, ...]

    @property
    def first(self) -> NodeInfo:
        return self.nodes[0]

    @property
    def is_spot(self) -> bool:
        return self.first.spot is not None


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The nodes of a cluster and what the pods on them request, at one time.

    `requested` is None if the backend may not list the pods of the cluster.
    """

    nodes: tuple[NodeInfo, ...]
    requested: Mapping[str, Amounts] | None
    waiting: Mapping[str, int]  # pods of ours that no node has taken yet, by the name of their place

    def pools(self, options: KubernetesOptions) -> list[NodePool]:
        """Return the groups of equal nodes that run Linux and have the labels of `node_selector`."""
        wanted = parse_pairs(options.node_selector)
        chosen = [
            node
            for node in self.nodes
            if node.runs_linux and all(node.labels.get(key) == value for key, value in wanted.items())
        ]
        return group_nodes(chosen)


def read_state(
    nodes: Iterable[Json], pods: Iterable[Json] | None, gpu_resource: str, *, launched: Iterable[str] = ()
) -> ClusterState:
    """Read the nodes and pods. `launched` has the places of pods that were created after the list of pods."""
    infos = tuple(read_node(node, gpu_resource) for node in nodes)
    use = None if pods is None else sum_use(read_demand(pod, PLACE_LABEL) for pod in pods)
    return join_state(infos, use, launched)


@dataclass(frozen=True, slots=True)
class PodUse:
    """What all pods of a cluster request."""

    requested: Mapping[str, Amounts]  # by node
    waiting: Mapping[str, int]


def sum_use(demands: Iterable[PodDemand]) -> PodUse:
    listed = [*demands]
    waiting = Counter(each.place for each in listed if each.place and not each.node)
    return PodUse(requests_by_node(listed), waiting)


def join_state(nodes: tuple[NodeInfo, ...], use: PodUse | None, launched: Iterable[str]) -> ClusterState:
    waiting = Counter(use.waiting if use else {}) + Counter(launched)
    return ClusterState(nodes, None if use is None else use.requested, waiting)


def group_nodes(nodes: Iterable[NodeInfo]) -> list[NodePool]:
    """Group nodes of the same type, place, GPU and price model. The names of the groups of a place differ."""
    groups: dict[tuple[Any, ...], list[NodeInfo]] = {}
    for node in nodes:
        key = (_base_name(node), node.region, node.zone, node.spot is not None, node.product, node.gpu_count)
        groups.setdefault(key, []).append(node)
    used: dict[tuple[Any, ...], int] = {}
    for key in groups:
        used[key[:4]] = used.get(key[:4], 0) + 1
    return [
        NodePool(
            name=key[0] if used[key[:4]] == 1 else f"{key[0]}-{_shape(members[0])}", nodes=tuple(members)
        )
        for key, members in sorted(groups.items())
    ]


def _base_name(node: NodeInfo) -> str:
    return node.instance_type or _shape(node)


def _shape(node: NodeInfo) -> str:
    if node.gpu_count:
        return f"{node.gpu_count}x{node.product or 'gpu'}"
    return f"cpu-{math.floor(node.allocatable.get('cpu', 0))}"


def pool_tolerations(pool: NodePool, options: KubernetesOptions, *, gpus: int) -> list[Json]:
    """Return the tolerations of a pod: the configured ones, and those that the offer implies.

    A pod with GPUs tolerates the taint that keeps other pods off GPU nodes. A pod of an interruptible offer
    tolerates the taint of spot nodes.
    """
    tolerations: list[Json] = [dict(parse_toleration(text)) for text in options.tolerations]
    if gpus:
        tolerations.append({"key": options.gpu_resource, "operator": "Exists"})
    if pool.is_spot:
        tolerations += [{"key": mark.key, "operator": "Equal", "value": mark.value} for mark in SPOT_MARKS]
    return tolerations


def requested_amounts(need: Resources, options: KubernetesOptions) -> dict[str, float]:
    """Return the resources that the pod of a job requests."""
    gpus = need.gpu.count if need.gpu else 0
    amounts = {"cpu": need.cpus or options.cpus, "pods": 1.0}
    memory_gib = need.memory_gib or options.memory_gib
    if gpus:
        amounts[options.gpu_resource] = float(gpus)
    if memory_gib:
        amounts["memory"] = memory_gib * GIB
    if need.disk_gib:
        amounts["ephemeral-storage"] = need.disk_gib * GIB
    return amounts


def build_offers(
    state: ClusterState, need: Resources, *, backend: str, options: KubernetesOptions
) -> list[Offer]:
    """Return one offer for each group of equal nodes."""
    return [_build_offer(pool, state, need, backend, options) for pool in state.pools(options)]


def _build_offer(
    pool: NodePool, state: ClusterState, need: Resources, backend: str, options: KubernetesOptions
) -> Offer:
    node = pool.first
    free, reason = free_places(pool, state, need, options)
    scales = options.autoscale_wait_s > 0 and free == 0
    price = pod_price_microusd(pool, need, options)
    return Offer(
        backend=backend,
        name=pool.name,
        region=node.region,
        zone=node.zone,
        gpu_kind=node.product,
        gpu_count=_gpu_count(pool, need) if price else node.gpu_count,
        gpu_memory_gib=node.gpu_memory_gib,
        driver=node.driver,
        cpus=min(each.allocatable.get("cpu", 0.0) for each in pool.nodes),
        memory_gib=_smallest_gib(pool, "memory"),
        disk_gib=math.floor(_smallest_gib(pool, "ephemeral-storage")),
        interruptible=pool.is_spot,
        price_microusd_per_hour=price,
        free=None if scales else free,
        wait_reason=reason,
        expected_wait_s=options.autoscale_wait_s if scales else 0.0,
        max_run_s=options.max_run_s,
        containers=True,
        self_expires="max_duration",
        lease_s=lease_with_relay(options.lease_s, options.relay),
        own=True,
        shared=True,
        max_nodes=most_pods(pool, need, options),
        interconnect=options.interconnect,
    )


def free_places(
    pool: NodePool, state: ClusterState, need: Resources, options: KubernetesOptions
) -> tuple[int | None, str]:
    """Return how many such jobs can start now, and why none can ("" if one can). None: not known."""
    problems = _node_problems(pool, need, options)
    usable = [node for node in pool.nodes if not problems[node.name]]
    if not usable:
        return 0, "; ".join(f"node {name} {problem}" for name, problem in [*problems.items()][:3])
    if state.requested is None:
        return None, ""
    wanted = requested_amounts(need, options)
    counts = [
        fitting_count(free_amounts(node, state.requested.get(node.name, {})), wanted) for node in usable
    ]
    free = max(0, sum(count for count, _ in counts) - state.waiting.get(place_of(pool), 0))
    if free:
        return free, ""
    lacking = sorted({name for count, name in counts if count == 0}) or ["all, by pods that wait"]
    return 0, f"none of {len(usable)} nodes has enough free {', '.join(lacking)}"


def most_pods(pool: NodePool, need: Resources, options: KubernetesOptions) -> int:
    """Return how many such pods the nodes hold if nothing else runs there: the nodes that one job may have."""
    wanted = requested_amounts(need, options)
    problems = _node_problems(pool, need, options)
    counts = [fitting_count(node.allocatable, wanted)[0] for node in pool.nodes if not problems[node.name]]
    return min(MAX_NODES, max(1, sum(counts)))


def _node_problems(pool: NodePool, need: Resources, options: KubernetesOptions) -> dict[str, str]:
    """Return why no such pod can start on each node ("" if one can), by the names of the nodes."""
    tolerations = pool_tolerations(pool, options, gpus=need.gpu.count if need.gpu else 0)
    return {node.name: _node_problem(node, tolerations) for node in pool.nodes}


def _node_problem(node: NodeInfo, tolerations: Sequence[Json]) -> str:
    taint = blocking_taint(node, tolerations)
    return node.problem or (f"has the taint {taint}, which no toleration matches" if taint else "")


def _smallest_gib(pool: NodePool, resource: str) -> float:
    return round(min(node.allocatable.get(resource, 0.0) for node in pool.nodes) / GIB, 2)


def pod_price_microusd(pool: NodePool, need: Resources, options: KubernetesOptions) -> int:
    """Return the price of an hour of a job's pod: its share of the node, by GPUs, or by CPUs if it has no GPU."""
    gpus, node_gpus = need.gpu.count if need.gpu else 0, pool.first.gpu_count
    if gpus and node_gpus:
        share = gpus / node_gpus
    else:
        node_cpus = min(node.allocatable.get("cpu", 0.0) for node in pool.nodes)
        share = (need.cpus or options.cpus) / node_cpus if node_cpus else 1.0
    node_price = _node_price_microusd(pool, options)
    # The smallest share of a node with a price has a price too: an offer of price 0 counts as one without.
    return max(min(1, node_price), round(node_price * min(1.0, share)))


def _gpu_count(pool: NodePool, need: Resources) -> int:
    """Return how many GPUs the price of a pod is for. Without a price, the offer has all GPUs, which jobs share."""
    gpus = need.gpu.count if need.gpu else 0
    return min(gpus, pool.first.gpu_count) if gpus else pool.first.gpu_count


def _node_price_microusd(pool: NodePool, options: KubernetesOptions) -> int:
    prices = parse_pairs(options.prices_microusd_per_hour)
    named = prices.get(pool.name) or prices.get(pool.first.instance_type) or prices.get(pool.first.product)
    return options.price_microusd_per_hour if named is None else int(named)


def place_of(pool: NodePool) -> str:
    """Return a label value that identifies the group of nodes."""
    node = pool.first
    return place_label(pool.name, node.region, node.zone, spot=pool.is_spot)


def place_label(name: str, region: str, zone: str, *, spot: bool) -> str:
    from hashlib import sha256

    return sha256("\n".join((name, region, zone, str(spot))).encode()).hexdigest()[:16]


def find_pool(state: ClusterState, offer: Offer, options: KubernetesOptions) -> NodePool | None:
    """Return the group of nodes of an offer; None if no such node exists any more."""
    wanted = (offer.name, offer.region, offer.zone, offer.interruptible)
    return next(
        (
            pool
            for pool in state.pools(options)
            if (pool.name, pool.first.region, pool.first.zone, pool.is_spot) == wanted
        ),
        None,
    )
