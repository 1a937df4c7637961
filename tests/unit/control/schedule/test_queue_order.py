"""Who is next among those who share machines, and who makes room for whom."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.control.jobs_in_states import checkpoint
from tests.unit.plan.offers.candidate_builders import as_candidates

from anygpu.control.policy import ControlPolicy, SharingPolicy, parse_quotas
from anygpu.control.schedule.preemption import MAX_WAITING, Preemptions, WaitingJobs, choose_preemptions
from anygpu.control.schedule.queue import PoolJobCache, PoolState, in_queue_order, pool_job, queue_state
from anygpu.errors import InvalidSpec
from anygpu.events.facts import Blame, Failure
from anygpu.events.fold import Recorded, fold, step
from anygpu.events.offers import Offer
from anygpu.events.slots import SlotKind, SlotUsage, TenantKey
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunching,
    AttemptReleased,
    CancelRequested,
    CheckpointSaved,
    Event,
    JobSubmitted,
    RecoveryStarted,
    StartRequested,
    StopRequested,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.plan.offers.selection import make_plan
from anygpu.spec.load import from_mapping

HOUR_MS = 3_600_000
NOW_MS = 1000 * HOUR_MS
BOX = Offer(backend="box", name="b", cpus=2, free=0)
CHECKPOINTS = {"checkpoint": {"paths": ["*.pt"], "resume_args": ["--resume"]}}


def job(name: str, *events: Event, project: str = "vision", hours: float = 0.1, **spec: Any) -> JobView:
    """Submitted, and whatever happened to it, so many hours ago."""
    at_ms = NOW_MS - round(hours * HOUR_MS)
    asked = JobSubmitted(spec=from_mapping({"script": "t.py", "name": name, **spec}))
    history = [
        Recorded(organisation="lab", project=project, position=n, job_id=name, at_ms=at_ms, event=event)
        for n, event in enumerate([asked, *events], 1)
    ]
    folded = fold(history)
    assert folded is not None
    return folded


def running(name: str, *more: Event, offer: Offer = BOX, **rest: Any) -> JobView:
    began = [
        AttemptLaunching(attempt=1, name=f"a-{name}", offer=offer, ticket_sha256=""),
        AttemptClaimed(attempt=1, claimant="agent"),
        TrainingStarted(attempt=1),
    ]
    return job(name, *began, *more, **{**CHECKPOINTS, "hours": 2, **rest})


def at(views: list[JobView], usages: dict[TenantKey, SlotUsage] | None = None, **sharing: Any) -> PoolState:
    return queue_state(views, usages or {}, ControlPolicy(sharing=SharingPolicy(**sharing)), NOW_MS)


def order(*views: JobView, usages: dict[TenantKey, SlotUsage] | None = None, **sharing: Any) -> list[str]:
    waiting = [view for view in views if view.live_attempt is None]
    now = at([*views], usages, **sharing)
    return [each.id for each in in_queue_order(PoolJobCache().pool_jobs(waiting, NOW_MS), now)]


def rooms(*views: JobView, boxes: tuple[Offer, ...] = (BOX,), **sharing: Any) -> Preemptions:
    now, full = at([*views], **sharing), WaitingJobs()
    waiting = {view.id: view for view in views if view.live_attempt is None}
    for each in in_queue_order(PoolJobCache().pool_jobs(waiting.values(), NOW_MS), now):
        view = waiting[each.id]
        full.add(each, view, make_plan(view.spec, as_candidates(boxes)))
    return choose_preemptions(full, now)


def stops(*views: JobView, **rest: Any) -> list[tuple[str, str]]:
    return [(room.slot_use.view.id, room.waiting_job.id) for room in rooms(*views, **rest).chosen]


def interrupted(name: str, hours: float, **rest: Any) -> JobView:
    """It had its slot for so long, and waits again."""
    view = running(name, hours=hours, **rest)
    failure = Failure(code="killed", message="killed", blame=Blame.INFRASTRUCTURE)
    events: list[Event] = [
        AttemptEnded(attempt=1, outcome="exited", signal=9),
        AttemptReleased(attempt=1),
        RecoveryStarted(attempt=1, failure=failure, delay_s=0, work_lost_s=0),
    ]
    for event in events:
        recorded = Recorded(
            organisation="lab", project=view.project, position=9, job_id=name, at_ms=NOW_MS, event=event
        )
        view = step(view, recorded)
    return view


def test_one_projects_jobs_go_in_the_order_of_submission_whatever_they_have_used() -> None:
    assert order(job("new", hours=1), interrupted("old", 40)) == ["old", "new"]


def test_between_projects_what_has_used_little_goes_first() -> None:
    assert order(job("new", project="speech"), interrupted("old", 40)) == ["new", "old"]


def test_then_the_project_that_has_used_less_lately() -> None:
    heavy = {TenantKey("lab", "vision", SlotKind.CPU): SlotUsage(9e6, NOW_MS / 1000)}
    assert order(job("a", hours=2), job("b", project="speech"), usages=heavy) == ["b", "a"]
    gpus = {TenantKey("lab", "vision", SlotKind.GPU): SlotUsage(9e6, NOW_MS / 1000)}
    assert order(job("a", hours=2), job("b", project="speech"), usages=gpus) == ["a", "b"]


def test_what_runs_now_counts_as_used() -> None:
    views = running("r", hours=5), job("a", hours=2), job("b", project="speech")
    assert order(*views) == ["b", "a"]


def test_a_higher_priority_goes_first_and_who_waited_a_day_before_that() -> None:
    assert order(job("low", hours=2), job("high", priority=5)) == ["high", "low"]
    assert order(job("low", hours=25), job("high", priority=5)) == ["low", "high"]


def test_those_within_a_quota_go_before_those_that_borrow() -> None:
    views = job("a", hours=3), job("b", hours=2, project="speech"), job("c", hours=1, project="speech")
    assert order(*views, quotas={"speech": 1}) == ["b", "a", "c"]
    assert order(*views, quotas={"lab/speech": 2}) == ["b", "c", "a"]


def test_who_may_not_borrow_takes_no_more_than_its_quota_launches_in_flight_included() -> None:
    waiting = job("w", project="speech")
    flying = job("f", AttemptLaunching(attempt=1, name="a", offer=BOX, ticket_sha256=""), project="speech")
    now = at([waiting, flying], quotas={"speech": 1}, may_borrow=False)
    assert now.over_quota(pool_job(waiting, NOW_MS)).startswith(
        "its project already uses its quota of 1 slots"
    )
    assert not at([waiting, flying], quotas={"speech": 2}, may_borrow=False).over_quota(
        pool_job(waiting, NOW_MS)
    )
    assert not at([waiting, flying], quotas={"speech": 1}).over_quota(pool_job(waiting, NOW_MS))


def test_a_long_job_that_checkpoints_makes_room_for_another_projects_new_one() -> None:
    long = running("long", resources={"cpus": 2})
    assert stops(long, job("short", project="speech")) == [("long", "short")]


def test_the_words_say_for_whom_and_that_it_goes_on() -> None:
    (room,) = rooms(running("long", resources={"cpus": 2}), job("short", project="speech")).chosen
    (event,) = room.stop_events(room.slot_use.view)
    assert event == StopRequested(
        attempt=1,
        reason="preempt",
        message="preempted by job short of project speech; resumes from its checkpoint when slots are free",
        makes_room_for="short",
    )
    other = replace(room, waiting_job=replace(room.waiting_job, organisation="strangers"))
    (event,) = other.stop_events(room.slot_use.view)
    assert isinstance(event, StopRequested)
    assert event.message.startswith("preempted by a job of another organisation; ")


LONG = running("long", resources={"cpus": 2})
SHORT = job("short", project="speech")


@pytest.mark.parametrize(
    ("why", "long", "short", "sharing"),
    [
        ("one project alone", LONG, job("short"), {}),
        ("it does not checkpoint", running("long", resources={"cpus": 2}, checkpoint={}), SHORT, {}),
        ("it started a moment ago", running("long", resources={"cpus": 2}, hours=0.1), SHORT, {}),
        ("the same band", running("long", resources={"cpus": 2}, hours=0.4), SHORT, {}),
        ("it is stopping", running("long", StopRequested(attempt=1, reason="budget")), SHORT, {}),
        ("it is cancelled", running("long", CancelRequested(), resources={"cpus": 2}), SHORT, {}),
        ("the settings say so", LONG, SHORT, {"min_run_s": 1e9}),
        ("it needs more than there is", LONG, job("short", project="speech", resources={"cpus": 3}), {}),
    ],
)
def test_nobody_is_stopped(why: str, long: JobView, short: JobView, sharing: dict[str, Any]) -> None:
    assert stops(long, short, **sharing) == [], why


def test_checkpoints_alone_do_not_make_a_job_preemptible() -> None:
    saved = CheckpointSaved(attempt=1, checkpoint=checkpoint(3))
    only_saves = running("long", saved, checkpoint={"paths": ["*.pt"]}, resources={"cpus": 2})
    assert stops(only_saves, SHORT) == []
    assert stops(replace(only_saves, code_resumes=True), SHORT) == [("long", "short")]
    (attempt,) = only_saves.attempts
    verified = replace(only_saves, attempts=(replace(attempt, resumed=True),))
    assert stops(verified, SHORT) == [("long", "short")]
    restarted = replace(only_saves, attempts=(replace(attempt, resumed=False),), code_resumes=True)
    assert stops(restarted, SHORT) == []


def test_within_a_project_only_a_higher_priority_stops_a_job() -> None:
    assert stops(LONG, job("urgent", priority=1)) == [("long", "urgent")]


def test_no_more_are_stopped_than_it_takes() -> None:
    views = [running(f"r{n}", hours=2 + n) for n in range(2)]
    assert stops(*views, SHORT) == [("r0", "short")]
    wide = job("wide", project="speech", resources={"cpus": 2})
    assert sorted(stops(*views, wide)) == [("r0", "wide"), ("r1", "wide")]


def test_what_is_coming_free_is_waited_for() -> None:
    makes = StopRequested(attempt=1, reason="preempt", makes_room_for="short")
    assert stops(running("r0", makes), running("r1"), SHORT) == []


def test_a_job_for_which_one_machine_makes_room_stops_nobody_on_another() -> None:
    other = replace(BOX, name="c")
    boxes = BOX, other
    views = running("b-long", resources={"cpus": 2}), running("c-long", resources={"cpus": 2}, offer=other)
    assert len(stops(*views, SHORT, boxes=boxes)) == 1
    makes = StopRequested(attempt=1, reason="preempt", makes_room_for="short")
    going = running("b-long", makes, resources={"cpus": 2})
    assert stops(going, views[1], SHORT, boxes=boxes) == []


def test_what_was_borrowed_is_given_back() -> None:
    views = running("r0", hours=0.5), running("r1", hours=0.5), job("mine", project="speech")
    assert stops(*views) == []
    assert len(stops(*views, quotas={"speech": 1})) == 1


def test_it_is_told_when_a_running_job_may_be_stopped() -> None:
    fresh = running("fresh", resources={"cpus": 2}, hours=0.1)
    assert rooms(fresh, SHORT).check_again_s == pytest.approx(NOW_MS / 1000 + 600 - 360)


def test_only_the_first_of_very_many_are_looked_at() -> None:
    full, waiting = WaitingJobs(), [job(f"w{n}") for n in range(MAX_WAITING + 50)]
    plan = make_plan(waiting[0].spec, as_candidates([BOX]))
    for view in waiting:
        full.add(pool_job(view, NOW_MS), view, plan)
    assert [len(found) for found in full.waiting.values()] == [MAX_WAITING]


def test_a_waiting_job_is_looked_at_anew_only_when_it_changed() -> None:
    waiting, view = PoolJobCache(), job("a")
    (first,) = waiting.pool_jobs([view], NOW_MS)
    (again,) = waiting.pool_jobs([view], NOW_MS)
    (changed,) = waiting.pool_jobs([replace(view, position=99)], NOW_MS)
    assert first is again
    assert changed is not first


def test_quotas_are_read_from_settings() -> None:
    assert parse_quotas(["vision=4", "lab/speech = 2"]) == {"vision": 4, "lab/speech": 2}
    for wrong in ("vision", "vision=", "=4", "vision=-1", "vision=many", "vision=99999999"):
        with pytest.raises(InvalidSpec, match=r"queue\.quotas"):
            parse_quotas([wrong])


def test_a_job_that_is_to_start_is_the_first_of_its_project_and_moves_no_other_project() -> None:
    first, second = job("a", hours=4), job("b", project="speech", hours=3)
    third, wanted = job("c", hours=2), job("d", StartRequested(person="ada"), hours=1)
    assert order(first, second, third, wanted) == ["d", "b", "a", "c"]
    assert order(first, third, wanted) == ["d", "a", "c"]


def test_a_job_that_is_to_start_stays_behind_those_within_their_quota() -> None:
    wanted = job("w", StartRequested(person="ada"), priority=9)
    assert order(wanted, job("q", project="speech"), quotas={"speech": 1}) == ["q", "w"]
