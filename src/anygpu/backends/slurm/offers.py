"""Build the offers of a Slurm cluster: one for each partition and each kind of node in it. Pure functions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from anygpu.backends.relay.contract import lease_with_relay
from anygpu.backends.slurm.options import SlurmOptions
from anygpu.backends.slurm.parse import Partition, Reservation, SlurmNode
from anygpu.backends.slurm.queries import STALE_FACTS_S, ClusterFacts
from anygpu.backends.slurm.script import cpu_share
from anygpu.backends.slurm.waits import ExpectedWait
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

MIB_PER_GIB = 1024
MINUTE_S = 60
RESERVATION_MARGIN_S = 180  # between the end of a job's time limit and the start of a reservation
MIN_USEFUL_RUN_S = 600  # a shorter time before a reservation is not worth a start


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """The nodes of one partition that have the same GPUs."""

    partition: Partition
    gpu_type: str
    gpus: int
    nodes: tuple[SlurmNode, ...]

    @property
    def offer_name(self) -> str:
        shape = f"{self.gpu_type}x{self.gpus}" if self.gpus else "cpu"
        return f"{self.partition.name}/{shape}"

    @property
    def cpus(self) -> int:
        return max((node.cpus for node in self.nodes), default=0)

    @property
    def memory_mib(self) -> int:
        return max((node.memory_mib for node in self.nodes), default=0)

    @property
    def usable(self) -> tuple[SlurmNode, ...]:
        return tuple(node for node in self.nodes if node.is_usable)


def node_groups(facts: ClusterFacts, options: SlurmOptions) -> list[NodeGroup]:
    """Group the nodes by partition and GPUs, and leave out partitions that the options do not allow."""
    groups: dict[tuple[str, str, int], list[SlurmNode]] = {}
    for node in facts.nodes:
        if options.partitions and node.partition not in options.partitions:
            continue
        for gpu_type, count in (node.gpus or {"": 0}).items():
            groups.setdefault((node.partition, gpu_type, count), []).append(node)
    return [
        NodeGroup(
            partition=_partition(name, facts, options),
            gpu_type=gpu_type,
            gpus=gpus,
            nodes=tuple(nodes),
        )
        for (name, gpu_type, gpus), nodes in sorted(groups.items())
    ]


def _partition(name: str, facts: ClusterFacts, options: SlurmOptions) -> Partition:
    partition = facts.partitions.get(name, Partition(name=name))
    if facts.qos_preemption is None:
        return partition
    preemptible = facts.qos_preemption.is_preemptible(options.qos, options.account)
    return replace(partition, preemptible=preemptible)


def free_slots(group: NodeGroup, need: Resources) -> int:
    """Return how many attempts with these resources could start now on idle parts of the nodes."""
    gpus = need.gpu.count if need.gpu else 0
    cpus = cpu_share(gpus, need.cpus, group.gpus, group.cpus)
    memory_mib = (
        need.memory_gib * MIB_PER_GIB if need.memory_gib else 1
    )  # without a request, it gets some too
    free = [_free_on(node, group.gpu_type, gpus, cpus, memory_mib) for node in group.usable]
    return sum(free) if need.nodes == 1 else sum(count > 0 for count in free) // need.nodes


def _free_on(node: SlurmNode, gpu_type: str, gpus: int, cpus: int, memory_mib: float) -> int:
    free = node.cpus_idle // cpus
    if node.memory_mib:
        free = min(free, int(max(0, node.memory_mib - node.memory_used_mib) // memory_mib))
    if not gpus:
        return free
    left = node.gpus.get(gpu_type, 0) - node.gpus_used.get(gpu_type, 0)
    return min(free, max(0, left) // gpus)


def build_offer(
    group: NodeGroup, facts: ClusterFacts, need: Resources, *, backend: str, options: SlurmOptions
) -> Offer:
    """Build the offer of a group of nodes.

    Slurm has a queue of its own, so `free` is None: a job can always be submitted. It is 0 if no node could run it.
    A job gets and pays for the GPUs that it asks for, so the offer has no more of them.
    """
    max_run_s, reserved = longest_run(group, facts, options)
    problem = group.partition.problem or _no_usable_node(group) or reserved
    gpus = need.gpu.count if need.gpu else 0
    price = options.price_of(group.gpu_type) * gpus if gpus else options.price_microusd_per_hour
    return Offer(
        backend=backend,
        name=group.offer_name,
        gpu_kind=(group.gpu_type.upper() or options.gpu_kind) if group.gpus else "",
        gpu_count=min(gpus, group.gpus) if gpus else group.gpus,
        cpus=group.cpus,
        memory_gib=round(group.memory_mib / MIB_PER_GIB, 1),
        interruptible=group.partition.preemptible,
        price_microusd_per_hour=price,
        free=0 if problem else None,
        wait_reason=problem,
        max_run_s=max_run_s,
        self_expires="none" if max_run_s is None else "max_duration",
        own=True,
        lease_s=lease_with_relay(options.lease_s, options.relay),
        shared=True,
        interconnect=options.interconnect,
        max_nodes=max(1, min(len(group.usable), group.partition.max_nodes or len(group.usable))),
    )


def with_wait(offer: Offer, wait: ExpectedWait, *, is_idle: bool) -> Offer:
    """Return the offer with Slurm's answer. If nodes are idle, a short wait or no answer says nothing against it."""
    # The wait is counted from the time of the facts, which may be a minute old.
    if is_idle and not wait.refused and (not wait.may_be_kept or wait.wait_s <= STALE_FACTS_S):
        return offer
    reason = "no idle node can run the job" if is_idle else "all its nodes are busy"
    return replace(offer, expected_wait_s=wait.wait_s, wait_reason=reason, refused=wait.refused)


def _no_usable_node(group: NodeGroup) -> str:
    if group.usable:
        return ""
    states = ", ".join(sorted({node.state for node in group.nodes})[:5])
    return f"no node of {group.offer_name} can start jobs (their state: {states})"


def longest_run(group: NodeGroup, facts: ClusterFacts, options: SlurmOptions) -> tuple[float | None, str]:
    """Return the longest time of a job on these nodes, and why none can start now ("" if one can).

    A reservation of all nodes, such as for maintenance, shortens the time until it begins.
    """
    limits = [limit for limit in (group.partition.max_time_s, options.max_run_s or None) if limit is not None]
    longest_s = min(limits, default=None)
    reservation = next_reservation(group, facts)
    if reservation is None:
        return longest_s, ""
    left_s = reservation.start_s - facts.now_s - RESERVATION_MARGIN_S
    if longest_s is not None and longest_s <= left_s:
        return longest_s, ""
    what = "maintenance" if reservation.maintenance else "others"
    if left_s < MIN_USEFUL_RUN_S:
        until_s = max(0, reservation.end_s - facts.now_s)
        reason = (
            f"the nodes of {group.offer_name} are reserved for {what} ({reservation.name}) for the next "
            f"{math.ceil(until_s / MINUTE_S)} minutes"
        )
        return longest_s, reason
    return float(left_s // MINUTE_S * MINUTE_S), ""


def next_reservation(group: NodeGroup, facts: ClusterFacts) -> Reservation | None:
    """Return the reservation at whose start the last unreserved node of the group becomes reserved.

    None if some node has no reservation, now or later.
    """
    firsts = [_first_reservation(node.name, facts) for node in group.usable]
    known = [each for each in firsts if each is not None]
    if not known or len(known) < len(firsts):
        return None
    return max(known, key=lambda each: each.start_s)


def _first_reservation(node: str, facts: ClusterFacts) -> Reservation | None:
    coming = [each for each in facts.reservations if node in each.nodes and each.end_s > facts.now_s]
    return min(coming, key=lambda each: each.start_s, default=None)


def missing_partitions(facts: ClusterFacts, options: SlurmOptions) -> list[str]:
    """Return the partitions in the options that the cluster does not have, or that the user may not use."""
    seen = {node.partition for node in facts.nodes}
    return [name for name in options.partitions if name not in seen]


def describe_groups(groups: Sequence[NodeGroup]) -> Iterator[str]:
    """Yield one line for each group: its name, nodes, GPUs, and longest run."""
    for group in groups:
        limit = group.partition.max_time_s
        run = "no time limit" if limit is None else f"{limit / 3600:g} h at most"
        preempted = ", preemptible" if group.partition.preemptible else ""
        yield f"{group.offer_name}: {len(group.usable)} of {len(group.nodes)} nodes usable, {run}{preempted}"
