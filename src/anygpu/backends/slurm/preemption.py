"""Decide which jobs Slurm may preempt, by its configuration. Pure functions.

What counts depends on PreemptType of the cluster (slurm.conf(5), and slurm.schedmd.com/preempt.html):

- `preempt/partition_prio`: jobs of a partition with a higher PriorityTier preempt jobs on the nodes that both
  partitions have. The PreemptMode of the partition of the preempted job says how, or OFF for never.
- `preempt/qos`: jobs preempt jobs of the qualities of service that the field Preempt of their own lists. With WITHIN in
  its PreemptMode, they also preempt jobs of their own. Partitions do not matter.
- none: nothing is preempted. Partitions then still show a PreemptMode.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from anygpu.backends.slurm.parse import Partition, expand_hosts

BY_TIER, BY_QOS = "preempt/partition_prio", "preempt/qos"
NO_PREEMPTION = ("preempt/none", "(null)")
MODES = frozenset({"REQUEUE", "CANCEL", "SUSPEND"})  # `GANG,SUSPEND` and `REQUEUE,WITHIN` exist too
CLUSTER_MODE = "CLUSTER"  # a quality of service without a mode of its own
DEFAULT_QOS = "normal"  # of users for whom the accounting names no other


def preempts(mode: str) -> bool:
    """Return whether jobs with this PreemptMode can be preempted."""
    return not MODES.isdisjoint(mode.upper().split(","))


def mark_preemptible(partitions: Iterable[Partition], preempt_type: str) -> dict[str, Partition]:
    """Return the partitions by name, with `preemptible` as far as it depends on the partition.

    If PreemptType is not known, the partition's mode alone counts: a job that cannot resume is then not started where
    it might be preempted.
    """
    every = {each.name: each for each in partitions}
    if preempt_type in NO_PREEMPTION:
        return every
    marked = {each.name for each in every.values() if preempts(each.preempt_mode)}
    if preempt_type == BY_TIER:
        nodes = {each.nodes: frozenset(expand_hosts(each.nodes)) for each in every.values()}
        marked = {name for name in marked if _has_higher_tier(every[name], every.values(), nodes)}
    return {name: replace(each, preemptible=name in marked) for name, each in every.items()}


def _has_higher_tier(
    partition: Partition, others: Iterable[Partition], nodes: Mapping[str, frozenset[str]]
) -> bool:
    return any(
        other.tier > partition.tier and not nodes[other.nodes].isdisjoint(nodes[partition.nodes])
        for other in others
    )


@dataclass(frozen=True, slots=True)
class QosPreemption:
    """The qualities of service of a cluster with `preempt/qos`, and which of them others preempt."""

    modes: Mapping[str, str] = field(default_factory=dict)  # by name; CLUSTER_MODE was replaced
    preempted: frozenset[str] = frozenset()  # by jobs of other qualities of service
    defaults: tuple[tuple[str, str], ...] = ()  # account and default quality of service of the user

    def is_preemptible(self, qos: str, account: str) -> bool:
        """Return whether jobs with these options of the backend may be preempted; True if that is not known."""
        if not self.modes:
            return True
        if qos:
            return self._may_lose(qos)
        defaults = {name or DEFAULT_QOS for owner, name in self.defaults if account in ("", owner)}
        return any(self._may_lose(name) for name in defaults or self.modes)

    def _may_lose(self, qos: str) -> bool:
        mode = self.modes.get(qos)
        if mode is None:
            return True
        return preempts(mode) and (qos in self.preempted or "WITHIN" in mode.split(","))


def parse_qos_preemption(qualities: str, defaults: str, cluster_mode: str) -> QosPreemption:
    """Read what sacctmgr prints: `name|preempted names|mode` of each quality, and `account|default` of the user."""
    rows = [parts for line in qualities.split("\n") if len(parts := line.strip().split("|")) == 3]
    cluster = cluster_mode.upper()
    within = {"WITHIN"} & set(cluster.split(","))  # it is valid for qualities with a mode of their own too
    modes = {name: mode.upper() for name, _, mode in rows}
    return QosPreemption(
        modes={
            name: cluster if mode in ("", CLUSTER_MODE) else ",".join((mode, *within))
            for name, mode in modes.items()
        },
        preempted=frozenset(name for _, names, _ in rows for name in names.split(",") if name),
        defaults=tuple(
            (parts[0], parts[1])
            for line in defaults.split("\n")
            if len(parts := line.strip().split("|")) == 2
        ),
    )
