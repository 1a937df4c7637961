"""The machines of an attempt on several nodes are described as one machine."""

import pytest

from anygpu.backends.contract import BilledInterval, MachineState, Observation
from anygpu.backends.gangs import attempt_names, combine_observations

R, P, E, G, A = (
    MachineState.RUNNING,
    MachineState.PENDING,
    MachineState.EXITED,
    MachineState.GONE,
    MachineState.ABSENT,
)


@pytest.mark.parametrize(
    ("states", "combined"),
    [
        ((R, R), R),
        ((R, P), P),
        ((R, E), E),
        ((R, G), E),
        ((R, A), A),
        ((G, G), G),
        ((G, A), A),
        ((G, P), E),
        ((A, E), E),
    ],
)
def test_one_node_that_is_gone_ends_the_attempt_and_all_nodes_must_be_gone(
    states: tuple[MachineState, ...], combined: MachineState
) -> None:
    assert combine_observations([Observation(state=state) for state in states]).state is combined


def test_each_node_is_billed_for_itself_and_the_detail_names_the_node() -> None:
    twin = BilledInterval(started_at_ms=3)
    seen = combine_observations(
        [
            Observation(state=R, started_at_ms=1, ended_at_ms=9, detail="runs", duplicates=(twin,)),
            Observation(state=E, started_at_ms=2, detail="the agent died", preempted=True),
        ]
    )
    assert (seen.started_at_ms, seen.ended_at_ms, seen.preempted) == (1, 9, True)
    assert seen.nodes == (BilledInterval(started_at_ms=2),)
    assert seen.duplicates == (twin,)
    assert seen.detail == "node 1: the agent died"


def test_nodes_that_were_refused_are_not_billed_and_the_others_are() -> None:
    refused, billed = Observation(state=G), Observation(state=G, started_at_ms=2, ended_at_ms=9)
    first_refused = combine_observations([refused, billed, billed])
    assert (first_refused.started_at_ms, first_refused.ended_at_ms) == (2, 9)
    assert first_refused.nodes == (BilledInterval(started_at_ms=2, ended_at_ms=9),)
    assert combine_observations([billed, refused, refused]).nodes == ()


def test_a_node_that_is_not_listed_counts_as_billed_like_another() -> None:
    seen = combine_observations([Observation(state=R, started_at_ms=2), Observation(state=A)])
    assert seen.nodes == (BilledInterval(started_at_ms=2),)
    assert combine_observations([Observation(state=A), Observation(state=A)]).nodes is None


def test_machines_are_named_by_their_attempt() -> None:
    assert attempt_names(["x-1", "x-1-n1", "y-1-n2"]) == ["x-1", "y-1"]
