"""What follows from the stored fields of jobs, attempts and nodes."""

from dataclasses import replace

import pytest

from anygpu.events.facts import Status, Usage
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Offer
from anygpu.events.view import AttemptView, JobView, NodeView
from anygpu.testing.samples.jobs import START_MS, attempt_training, job_id, job_submitted

ATTEMPT = AttemptView(
    number=1,
    name="anygpu-1",
    offer=Offer(backend="cloud", price_microusd_per_hour=500),
    ticket_sha256="",
    launching_at_ms=START_MS,
)
ENDED = NodeView(claimant="a", ready_at_ms=1, ended_at_ms=2, outcome="exited", exit_code=0)


def training_job() -> JobView:
    events = [job_submitted(tags=["night"]), *attempt_training()]
    history = [
        Recorded(
            organisation="lab", project="p", position=n, job_id=job_id(1), at_ms=START_MS + n, event=event
        )
        for n, event in enumerate(events, 1)
    ]
    view = fold(history)
    assert view is not None
    return view


@pytest.mark.parametrize(
    ("node", "state", "failed"),
    [
        (NodeView(), "starting", False),
        (NodeView(claimant="a"), "preparing", False),
        (NodeView(claimant="a", ready_at_ms=1), "ready", False),
        (ENDED, "ended", False),
        (replace(ENDED, exit_code=1), "ended", True),
        (replace(ENDED, exit_code=None, signal=9), "ended", True),
        (replace(ENDED, outcome="cancelled"), "ended", True),
    ],
)
def test_the_state_of_a_node_follows_from_what_is_known_of_it(
    node: NodeView, state: str, failed: bool
) -> None:
    assert (node.state, node.has_failed) == (state, failed)


def test_an_attempt_on_several_nodes_is_claimed_when_every_node_is() -> None:
    gang = replace(ATTEMPT, claimant="a", nodes=(NodeView(claimant="a"), NodeView()))
    assert not gang.is_claimed
    assert gang.with_node(1, claimant="b").is_claimed
    assert (gang.claimant_of(0), gang.claimant_of(1), gang.claimant_of(7), gang.claimant_of(-1)) == (
        "a",
        None,
        None,
        None,
    )
    assert not gang.are_nodes_ready
    assert ATTEMPT.are_nodes_ready


def test_every_node_is_paid_at_the_price_that_the_provider_confirmed() -> None:
    gang = replace(ATTEMPT, nodes=(NodeView(),) * 3)
    assert (ATTEMPT.hourly_microusd, gang.hourly_microusd) == (500, 1500)
    assert replace(gang, price_microusd_per_hour=0).hourly_microusd == 0


def test_the_cost_of_an_attempt_includes_machines_that_appeared_later() -> None:
    usage = Usage(started_at_ms=0, ended_at_ms=1, cost_microusd=10)
    assert ATTEMPT.cost_microusd == 0
    assert replace(ATTEMPT, usage=usage, orphans=(usage, usage)).cost_microusd == 30


def test_edited_tags_replace_those_of_the_spec() -> None:
    job = training_job()
    assert job.tags == ("night",)
    assert replace(job, edited_tags=()).tags == ()


def test_an_attempt_is_live_until_it_or_its_job_has_ended() -> None:
    job = training_job()
    assert job.live_attempt is job.newest_attempt is job.attempts[0]
    assert replace(job, status=Status.CANCELLED).live_attempt is None
    assert replace(job, attempts=(replace(job.attempts[0], ended_at_ms=1),)).live_attempt is None
    assert replace(job, attempts=()).newest_attempt is None


def test_whether_the_job_resumed_is_that_of_the_newest_attempt_that_shows_it() -> None:
    job = training_job()
    shown = [replace(ATTEMPT, resumed=each) for each in (True, False, None)]
    assert job.resumed is None
    assert replace(job, attempts=tuple(shown)).resumed is False
    assert replace(job, attempts=tuple(shown[:1])).resumed is True


def test_a_deleted_checkpoint_was_published_all_the_same() -> None:
    job = replace(training_job(), past_checkpoints=("gone",))
    assert job.has_published("gone")
    assert not job.has_published("other")
