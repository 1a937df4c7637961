"""Attempts on several machines, for backends that start each machine by itself: handles and states of the nodes.

Node 0 has the name of the attempt, the others have the suffix `-n1`, `-n2`, … Pure functions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from anygpu.backends.contract import (
    BilledInterval,
    LaunchRequest,
    MachineState,
    Observation,
    split_node_name,
)

LEFT = (MachineState.GONE, MachineState.ABSENT)


def node_launches(launch: LaunchRequest) -> list[LaunchRequest]:
    """Return a launch request for each node, with the name of its machine."""
    return [replace(launch, name=launch.node_name(node)) for node in range(launch.nodes)]


def attempt_names(names: Iterable[str]) -> list[str]:
    """Return the names of the attempts to which these machines belong, each once."""
    return list(dict.fromkeys(split_node_name(name)[0] for name in names))


def combine_observations(observations: Sequence[Observation]) -> Observation:
    """Describe the nodes of an attempt as one machine.

    The machine has exited as soon as one node has, and is gone when all nodes are. Each node is billed separately.
    """
    chosen = observations[_decisive(observations)]
    number = observations.index(chosen)
    return replace(
        _with_billing(observations),
        state=_common_state([each.state for each in observations]),
        detail=f"node {number}: {chosen.detail}" if number else chosen.detail,
        preempted=any(each.preempted for each in observations),
        failure=next((each.failure for each in observations if each.failure), None),
        end_cause=next((each.end_cause for each in observations if each.end_cause), None),
        duplicates=tuple(interval for each in observations for interval in each.duplicates),
    )


def _with_billing(observations: Sequence[Observation]) -> Observation:
    """Return the observation of node 0 with the billed time of all nodes.

    If node 0 was never billed, because only its launch was refused, another node takes its place. A node that is gone
    and has no billed time never existed. One that is not listed now may have been billed as long as the others.
    """
    first, known = observations[0], [each for each in observations if each.started_at_ms is not None]
    if not known:
        return first
    main = known[0]
    number = observations.index(main)
    billed = [
        _interval(main if each.started_at_ms is None else each)
        for each in (*observations[:number], *observations[number + 1 :])
        if each.started_at_ms is not None or each.state is not MachineState.GONE
    ]
    return replace(
        first,
        started_at_ms=main.started_at_ms,
        ended_at_ms=main.ended_at_ms,
        price_microusd_per_hour=main.price_microusd_per_hour,
        nodes=tuple(billed),
    )


def _common_state(states: Sequence[MachineState]) -> MachineState:
    if all(state in LEFT for state in states):
        return MachineState.ABSENT if MachineState.ABSENT in states else MachineState.GONE
    if MachineState.EXITED in states or MachineState.GONE in states:
        return MachineState.EXITED
    order = (MachineState.ABSENT, MachineState.PENDING, MachineState.RUNNING)
    return next(state for state in order if state in states)


def _decisive(observations: Sequence[Observation]) -> int:
    """Return the number of the node whose state explains the common one."""
    order = (
        MachineState.EXITED,
        MachineState.GONE,
        MachineState.ABSENT,
        MachineState.PENDING,
        MachineState.RUNNING,
    )
    return min(range(len(observations)), key=lambda node: order.index(observations[node].state))


def _interval(observation: Observation) -> BilledInterval:
    assert observation.started_at_ms is not None
    return BilledInterval(
        started_at_ms=observation.started_at_ms,
        ended_at_ms=observation.ended_at_ms,
        price_microusd_per_hour=observation.price_microusd_per_hour,
    )
