"""Several hosts for one attempt: the offer of a group of hosts, and the names and states of its nodes.

Node 0 has the name of the attempt on its host, the others have the suffix `-n1`, `-n2`, … Pure functions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from anygpu.backends.contract import LaunchRequest, node_name, split_node_name
from anygpu.backends.ssh.hosts import HostStatus
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

GROUP = "group"


def group_offers(offers: Sequence[Offer], need: Resources) -> list[Offer]:
    """Return one offer for all hosts that have the same GPU and are large enough for a node of the job.

    It describes the smallest of them. `free` is the number of hosts on which a node can start now.
    """
    by_kind: dict[str, list[Offer]] = {}
    silent = [offer for offer in offers if not offer.cpus]  # hosts that have not answered may be large enough
    for offer in (each for each in offers if each.cpus):
        by_kind.setdefault(offer.gpu_kind if _gpu_count(need) else "", []).append(offer)
    groups = {kind: _large_enough(same, need) or same for kind, same in by_kind.items()} or {"": silent}
    return [_group_offer(kind, same, silent if by_kind else []) for kind, same in groups.items()]


def _gpu_count(need: Resources) -> int:
    return need.gpu.count if need.gpu else 0


def _large_enough(offers: Sequence[Offer], need: Resources) -> list[Offer]:
    return [
        offer
        for offer in offers
        if offer.gpu_count >= _gpu_count(need)
        and offer.cpus >= (need.cpus or 0)
        and offer.memory_gib >= (need.memory_gib or 0)
        and offer.disk_gib >= (need.disk_gib or 0)
    ]


def _group_offer(kind: str, hosts: Sequence[Offer], silent: Sequence[Offer]) -> Offer:
    busy = [offer.wait_reason for offer in (*hosts, *silent) if offer.is_full and offer.wait_reason]
    return replace(
        hosts[0],
        name=f"{GROUP} {kind}".strip(),
        gpu_count=min(offer.gpu_count for offer in hosts),
        gpu_memory_gib=min(offer.gpu_memory_gib for offer in hosts),
        cpus=min(offer.cpus for offer in hosts),
        memory_gib=min(offer.memory_gib for offer in hosts),
        disk_gib=min(offer.disk_gib for offer in hosts),
        containers=all(offer.containers for offer in hosts),
        free=sum(not offer.is_full for offer in hosts),
        wait_reason="; ".join(busy[:3]),
        max_nodes=len(hosts) + len(silent),
    )


def free_hosts(offers: Mapping[str, Sequence[Offer]], launch: LaunchRequest, gpu_kind: str) -> list[str]:
    """Return the hosts on which a node of the attempt can start now, from the offers of each host.

    The conditions are those with which the group's offer was built: a host that is too small is never chosen.
    """
    need = launch.resources
    return [
        name
        for name, own in offers.items()
        if any(
            not each.is_full and (each.containers or not launch.image)
            for each in _large_enough(_of_kind(own, gpu_kind, need), need)
        )
    ]


def _of_kind(offers: Sequence[Offer], gpu_kind: str, need: Resources) -> list[Offer]:
    return [offer for offer in offers if not _gpu_count(need) or offer.gpu_kind == gpu_kind]


def find_nodes(attempt: str, statuses: Mapping[str, HostStatus]) -> dict[int, str]:
    """Return the nodes of an attempt that run, each with its host."""
    return {
        node: host
        for host, status in statuses.items()
        for name, node in map(split_node_name, status.attempt_names)
        if name == attempt
    }


def node_handles(handle: Handle) -> list[Handle]:
    """Return a handle for each node of an attempt on several hosts."""
    return [
        Handle(name=node_name(handle.name, node), native={"box": host})
        for node, host in enumerate(handle.native["hosts"])
    ]


def attempt_handles(places: Iterable[tuple[str, str]]) -> list[Handle]:
    """Return one handle for each attempt, from the names of running nodes and their hosts.

    The handle of an attempt on several hosts has only its name, because some of its nodes may not run any more.
    """
    hosts: dict[str, list[str]] = {}
    gangs: set[str] = set()
    for name, host in places:
        attempt, node = split_node_name(name)
        hosts.setdefault(attempt, []).append(host)
        if node:
            gangs.add(attempt)
    return [
        Handle(name=attempt, native={} if attempt in gangs or len(found) > 1 else {"box": found[0]})
        for attempt, found in hosts.items()
    ]
