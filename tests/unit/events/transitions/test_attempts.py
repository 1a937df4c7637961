"""How events change an attempt and its nodes."""

from dataclasses import replace

import pytest
from tests.unit.events.histories import (
    LOST,
    USAGE,
    after,
    ended,
    launching,
    started,
)

from anygpu.events.facts import (
    Phase,
    Status,
    Usage,
)
from anygpu.events.offers import Handle
from anygpu.events.transitions import InvalidEvent
from anygpu.events.types import (
    AttemptClaimed,
    AttemptLaunched,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    Event,
    HoldEnded,
    HoldStarted,
    JobCompleted,
    MachineStarted,
    MeterDiffered,
    NodeClaimed,
    NodeEnded,
    NodeReady,
    OrphanEnded,
    TrainingStarted,
)
from anygpu.events.view import JobView


def test_an_attempt_in_the_queue_of_its_engine_says_why_until_it_starts() -> None:
    queued = [launching(1), AttemptQueued(attempt=1, reason="busy")]
    view = after(*queued)
    assert (view.phase, view.reason) == (Phase.PROVISIONING, "busy")
    assert view.attempts[0].queue_reason_at_ms == 3000
    assert after(*queued, AttemptClaimed(attempt=1, claimant="a")).reason == ""
    assert after(*queued, AttemptLost(attempt=1, evidence="", failure=LOST)).reason == ""


def test_an_agent_may_claim_and_end_before_its_launch_call_returned() -> None:
    view = after(
        launching(1),
        AttemptClaimed(attempt=1, claimant="a"),
        TrainingStarted(attempt=1),
        ended(1),
        AttemptLaunched(attempt=1, handle=Handle(name="anygpu-j-1", native={"id": "i-1"})),
    )
    assert view.attempts[0].handle == Handle(name="anygpu-j-1", native={"id": "i-1"})


RELEASED = AttemptReleased(attempt=1, usage=USAGE)

DONE = [*started(1), ended(1), RELEASED, JobCompleted()]


def test_the_ledger_adds_up_what_is_released_and_what_turned_up_late() -> None:
    late = OrphanEnded(attempt=1, usage=Usage(started_at_ms=5, ended_at_ms=6, cost_microusd=4))
    assert after(*started(1), ended(1)).cost_microusd == 0
    assert after(*DONE).cost_microusd == 3
    view = after(*DONE, late)
    assert (view.cost_microusd, view.attempts[0].cost_microusd, view.status) == (7, 7, Status.COMPLETED)
    with pytest.raises(InvalidEvent):
        after(*DONE, late, late)


def test_a_meter_that_differs_is_noted_after_the_end_and_changes_nothing_else() -> None:
    view = after(*DONE, MeterDiffered(attempt=1, ours_microusd=3, theirs_microusd=5))
    assert view.attempts[0].metered_microusd == 5
    assert (view.cost_microusd, view.status, view.ended_at_ms) == (
        3,
        Status.COMPLETED,
        after(*DONE).ended_at_ms,
    )


def test_a_held_machine_is_held_once_and_until_somebody_lets_it_go() -> None:
    failed = [*started(1), ended(1, 1)]
    held = after(*failed, HoldStarted(attempt=1, until_ms=99))
    assert (held.phase, held.attempts[0].is_held) == (Phase.HELD, True)
    let_go = after(*failed, HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time"))
    assert (let_go.phase, let_go.attempts[0].is_held) == (Phase.FINISHING, False)
    for wrong in (HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time")):
        with pytest.raises(InvalidEvent):
            after(*failed, HoldStarted(attempt=1, until_ms=99), HoldEnded(attempt=1, reason="time"), wrong)


def test_the_providers_word_on_the_price_counts_more_than_the_offers() -> None:
    view = after(*started(1), MachineStarted(attempt=1, started_at_ms=7, price_microusd_per_hour=8))
    assert (view.attempts[0].hourly_microusd, view.attempts[0].started_at_ms) == (8, 7)
    assert after(*started(1), MachineStarted(attempt=1, started_at_ms=7)).attempts[0].hourly_microusd == 0


def gang(*events: Event) -> JobView:
    """The state of a job whose first attempt has two nodes."""
    return after(replace(launching(1), nodes=2), *events)


CLAIMED = (
    AttemptClaimed(attempt=1, claimant="a", host={"hostname": "one"}),
    NodeClaimed(attempt=1, node=1, claimant="b", host={"hostname": "two"}),
)


READY = tuple(NodeReady(attempt=1, node=node, address=f"h{node}", port=1000 + node) for node in (0, 1))


def test_the_nodes_of_an_attempt_claim_get_ready_and_end() -> None:
    attempt = gang(*CLAIMED[:1]).attempts[0]
    assert (attempt.node_count, attempt.is_claimed) == (2, False)
    assert [node.state for node in attempt.nodes] == ["preparing", "starting"]
    attempt = gang(*CLAIMED, *READY[:1]).attempts[0]
    assert (attempt.is_claimed, attempt.are_nodes_ready) == (True, False)
    assert [(node.host, node.state) for node in attempt.nodes] == [("one", "ready"), ("two", "preparing")]
    ended = NodeEnded(attempt=1, node=1, outcome="exited", exit_code=1)
    attempt = gang(*CLAIMED, *READY, TrainingStarted(attempt=1), ended).attempts[0]
    assert attempt.has_failed_node
    assert [node.state for node in attempt.nodes] == ["ready", "ended"]
    assert not attempt.is_over


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ((*CLAIMED, READY[0], TrainingStarted(attempt=1)), "not all nodes of the attempt are ready"),
        ((*CLAIMED, CLAIMED[1]), "already claimed"),
        ((CLAIMED[0], replace(CLAIMED[1], node=2)), "no node 2"),
        ((CLAIMED[0], replace(CLAIMED[1], node=0)), "node 0 claims the attempt"),
        ((CLAIMED[0], READY[1]), "no agent has claimed the node"),
        ((*CLAIMED, READY[1], READY[1]), "already ready"),
        ((CLAIMED[0], NodeEnded(attempt=1, node=1, outcome="exited", exit_code=0)), "no agent has claimed"),
    ],
)
def test_an_event_of_a_node_that_does_not_fit_is_refused(events: tuple[Event, ...], reason: str) -> None:
    with pytest.raises(InvalidEvent, match=reason):
        gang(*events)


def test_an_attempt_on_one_machine_has_no_nodes() -> None:
    with pytest.raises(InvalidEvent, match="no node 1"):
        after(*started(1), NodeReady(attempt=1, node=1))
    assert after(*started(1)).attempts[0].node_count == 1
