"""What the spot policy is asked about a job with a deadline, and what follows from its answer."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.offers.candidate_builders import as_candidates

from anygpu.control.policy import ControlPolicy
from anygpu.control.progress import (
    checkpoint_interval_s,
    deadline_ms,
    expected_training_s,
    remaining_s,
    startup_s,
    trained_s,
    unsaved_s,
)
from anygpu.control.schedule.deadline import (
    apply_decision,
    available_zones,
    decide_spot,
    has_deadline,
    has_fresh_checkpoint,
    max_recovery_s,
    move_events,
    move_reason,
    next_check_s,
    spot_choices,
    spot_situation,
    zone_name,
)
from anygpu.events.facts import Blame, CheckpointRef, Failure, Prediction
from anygpu.events.fold import Recorded, fold
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    CancelRequested,
    CheckpointSaved,
    Event,
    JobPlanned,
    JobSubmitted,
    RecoveryStarted,
    StopRequested,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.plan.offers.selection import JobConstraints, Plan, make_plan
from anygpu.plan.spot.availability import SpotAvailability
from anygpu.plan.spot.policy import ON_DEMAND, WAIT, MachineChoice, SpotDecision
from anygpu.spec.load import from_mapping

POLICY = ControlPolicy()
SPOT = Offer(
    backend="aws",
    zone="a",
    name="g5",
    gpu_kind="A10G",
    gpu_count=1,
    interruptible=True,
    price_microusd_per_hour=400_000,
)
OTHER = replace(SPOT, zone="b")
FIRM = replace(SPOT, zone="", interruptible=False, price_microusd_per_hour=1_000_000)
BOX = Offer(backend="box", gpu_kind="A10G", gpu_count=1)
HOUR = 3600.0
Timed = tuple[float, Event]  # seconds after the job was submitted


def job(*told: Timed, **spec: Any) -> JobView:
    """Ten hours of work, twenty hours to do it in."""
    wanted = {
        "script": "train.py",
        "checkpoint": {"paths": ["ckpt/*"], "resume_args": ["--resume"], "every": "10m"},
        "limits": {"deadline": "20h"},
        "placement": {"expected_duration": "10h"},
        **spec,
    }
    events: list[Timed] = [(0, JobSubmitted(spec=from_mapping(wanted))), *told]
    view = fold(
        Recorded(
            organisation="lab", project="p", position=n, job_id="job", at_ms=round(at * 1000), event=event
        )
        for n, (at, event) in enumerate(events, 1)
    )
    assert view is not None
    return view


def started(
    at: float, offer: Offer, number: int = 1, *, set_up: float = 100, resume: CheckpointRef | None = None
) -> list[Timed]:
    name = f"anygpu-job-{number}"
    return [
        (at, AttemptLaunching(attempt=number, name=name, offer=offer, ticket_sha256="", resume=resume)),
        (at, AttemptLaunched(attempt=number, handle=Handle(name=name))),
        (at + set_up, AttemptClaimed(attempt=number, claimant="agent")),
        (at + set_up, TrainingStarted(attempt=number)),
    ]  # fmt: skip


def at_step(at: float, number: int = 1) -> CheckpointRef:
    at_ms = round(at * 1000)
    return CheckpointRef(
        id=f"{number}@{at}", attempt=number, step=round(at), manifest="m", size=1, saved_at_ms=at_ms
    )


def saved(at: float, number: int = 1) -> Timed:
    return at, CheckpointSaved(attempt=number, checkpoint=at_step(at, number))


def lost(at: float, number: int = 1, code: str = "preempted", blame: Blame = Blame.PREEMPTION) -> list[Timed]:
    failure = Failure(code=code, message=code, blame=blame)
    recovery = RecoveryStarted(attempt=number, failure=failure, delay_s=0, work_lost_s=0, counts=False)
    return [(at, AttemptLost(attempt=number, evidence=code, failure=failure)), (at, recovery)]


def plan(view: JobView, *offers: Offer, **now: Any) -> Plan:
    return make_plan(view.spec, as_candidates(offers), JobConstraints(resumable=True, allow_paid=True, **now))


def asked(view: JobView, now_s: float, *offers: Offer) -> Any:
    among = spot_choices(plan(view, *offers))
    assert among is not None
    return spot_situation(view, among, round(now_s * 1000), POLICY)


def said(view: JobView, now_s: float, *offers: Offer) -> SpotDecision:
    put = asked(view, now_s, *offers)
    weather = SpotAvailability.initial(put.job.spot_usd_per_hour, 600).observe(put.at.available)
    return decide_spot(put, weather)


# -- what is left -------------------------------------------------------------------------------------------------


def test_what_a_checkpoint_holds_is_counted_through_every_attempt_that_led_to_it() -> None:
    first = [*started(0, SPOT), saved(1100), *lost(2000)]
    view = job(*first, *started(2000, SPOT, 2, resume=at_step(1100)), saved(2600, 2))
    assert trained_s(view, view.newest_checkpoint) == 1000 + 500
    assert remaining_s(view, 10 * HOUR) == 10 * HOUR - 1500
    assert unsaved_s(view, 2_700_000) == 100


def test_a_checkpoint_of_another_job_counts_for_nothing() -> None:
    inherited = at_step(-5000)
    view = job(*started(0, SPOT, resume=inherited), saved(400))
    assert trained_s(view, inherited) == 0
    assert trained_s(view, view.newest_checkpoint) == 300


def test_a_job_that_takes_longer_than_it_said_takes_as_long_again_as_it_is_over() -> None:
    view = job(*started(0, SPOT), saved(100 + 11 * HOUR))
    assert remaining_s(view, 10 * HOUR) == HOUR


def test_the_work_is_what_was_said_or_measured_or_predicted_at_worst() -> None:
    guess = Prediction(
        wall_s=1,
        wall_low_s=1,
        wall_high_s=50_000,
        cost_microusd=0,
        cost_low_microusd=0,
        cost_high_microusd=0,
        basis="code",
    )
    measured = replace(guess, basis="first steps")
    unsaid: dict[str, object] = {"placement": {}}
    assert expected_training_s(job((1, JobPlanned(prediction=guess)))) == 10 * HOUR
    assert expected_training_s(job((1, JobPlanned(prediction=measured)))) == 50_000
    assert expected_training_s(job((1, JobPlanned(prediction=guess)), **unsaid)) == 50_000
    assert (
        expected_training_s(job((1, JobPlanned(prediction=replace(guess, basis="nothing"))), **unsaid))
        is None
    )
    assert expected_training_s(job(**unsaid)) is None


def test_a_start_costs_what_was_seen_and_before_that_what_it_may_cost_at_most() -> None:
    assert startup_s(job(), POLICY) == POLICY.claim_limit_s
    assert startup_s(job(*started(0, SPOT)), POLICY) == 100
    assert checkpoint_interval_s(job(*started(0, SPOT))) == 600
    assert checkpoint_interval_s(job(*started(0, SPOT), saved(200), saved(330))) == 130


def test_a_deadline_is_counted_from_submission_or_is_an_instant() -> None:
    assert deadline_ms(job()) == 20 * 3600 * 1000
    assert deadline_ms(job(limits={"deadline": "2030-01-01T00:00:00Z"})) == 1_893_456_000_000
    assert deadline_ms(job(limits={})) is None


# -- what there is to choose from ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, True),
        ({"limits": {}}, False),
        ({"placement": {"interruptible": "no"}}, False),
        ({"placement": {"interruptible": "yes"}}, True),
    ],
)
def test_only_a_job_with_a_deadline_that_may_be_interrupted_is_steered(spec: Any, expected: bool) -> None:
    assert has_deadline(job(**spec)) is expected


def test_spot_that_is_no_cheaper_or_slower_than_on_demand_is_no_choice() -> None:
    dear, slow = (
        replace(SPOT, zone="c", price_microusd_per_hour=1_000_000),
        replace(SPOT, zone="d", gpu_kind="T4"),
    )
    among = spot_choices(plan(job(), SPOT, dear, slow, FIRM))
    assert among is not None
    assert [*among.spot] == ["aws a g5"]
    assert spot_choices(plan(job(), SPOT, OTHER)) is None


def test_a_free_machine_of_ones_own_leaves_nothing_to_decide() -> None:
    among = spot_choices(plan(job(), SPOT, FIRM, BOX))
    assert among is not None
    assert not among.spot


def test_a_zone_that_failed_the_job_within_a_tick_is_not_there() -> None:
    view = job(*started(0, SPOT), *lost(1000))
    among = spot_choices(plan(view, SPOT, OTHER, FIRM))
    assert among is not None
    assert available_zones(view, among, 1_100_000, POLICY) == (zone_name(OTHER),)
    assert available_zones(view, among, 1_700_000, POLICY) == (zone_name(SPOT), zone_name(OTHER))


def test_a_firm_machine_is_not_left_for_a_zone_that_keeps_refusing() -> None:
    refused = [*started(0, SPOT)[:1], *lost(10, code="no_capacity", blame=Blame.LAUNCH)]
    again = [*started(700, SPOT, 2)[:1], *lost(710, 2, "no_capacity", Blame.LAUNCH)]
    view = job(*refused, *again, *started(720, FIRM, 3))
    among = spot_choices(plan(view, SPOT, FIRM))
    assert among is not None
    assert available_zones(view, among, (710 + 2400) * 1000, POLICY) == ()
    assert available_zones(view, among, (710 + 2401) * 1000, POLICY) == (zone_name(SPOT),)


# -- what the policy is asked and says ----------------------------------------------------------------------------


def test_with_time_to_spare_it_takes_spot_and_near_the_deadline_on_demand() -> None:
    assert said(job(), 0, SPOT, FIRM).choice == MachineChoice("spot", zone_name(SPOT))
    assert said(job(), 9.6 * HOUR, SPOT, FIRM).choice == ON_DEMAND


def test_on_spot_it_stays_until_the_safety_net_is_reached() -> None:
    view = job(*started(0, SPOT), saved(700), limits={"deadline": "12h"})
    put = asked(view, 800, SPOT, FIRM)
    assert put.at.running == MachineChoice("spot", zone_name(SPOT))
    assert said(view, 800, SPOT, FIRM).choice.kind == "spot"
    # All that was trained since is credited, and would have to be done again.
    idle_s = 12 * HOUR - (10 * HOUR - 600) - 100 - max_recovery_s(FIRM, POLICY)
    assert said(view, idle_s - 60, SPOT, FIRM).choice.kind == "spot"
    assert said(view, idle_s + 60, SPOT, FIRM).choice == ON_DEMAND


def test_the_next_look_comes_before_the_safety_net_is_reached() -> None:
    view = job(*started(0, SPOT), saved(700), limits={"deadline": "12h"})
    assert next_check_s(asked(view, 800, SPOT, FIRM), POLICY) == POLICY.spot_check_every_s
    near = asked(view, 12 * HOUR - (10 * HOUR - 600) - 100 - max_recovery_s(FIRM, POLICY) - 60, SPOT, FIRM)
    assert next_check_s(near, POLICY) == pytest.approx(60)


def test_nobody_waits_for_spot_that_could_not_be_tried_any_more() -> None:
    full = replace(SPOT, free=0)
    put = asked(job(), 0, full, FIRM)
    assert said(job(), put.latest_ms / 1000 - 600, full, FIRM).choice in (WAIT, ON_DEMAND)
    assert said(job(), put.latest_ms / 1000 + 1, full, FIRM).choice == ON_DEMAND


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"placement": {}}, "its duration is unknown"),
        (
            {"checkpoint": {}, "placement": {"expected_duration": "10h", "interruptible": "yes"}},
            "nothing shows that the job can resume",
        ),
    ],
)
def test_what_nobody_knows_is_not_gambled_with(spec: Any, word: str) -> None:
    view = job(**spec)
    ranking = plan(view, SPOT, FIRM)
    among = spot_choices(ranking)
    assert among is not None
    why_not = spot_situation(view, among, 0, POLICY)
    assert isinstance(why_not, str)
    assert word in why_not
    chosen = apply_decision(ranking, among, SpotDecision(ON_DEMAND, why_not), None)
    assert chosen.choice == FIRM
    assert [r.wait_reason for r in chosen.ranked if r.offer == SPOT] == [why_not]


# -- what follows -------------------------------------------------------------------------------------------------


def steer(view: JobView, where: SpotDecision, now_s: float, *offers: Offer, **now: Any) -> Plan:
    ranking = plan(view, *offers, **now)
    among = spot_choices(ranking)
    assert among is not None
    return apply_decision(ranking, among, where, asked(view, now_s, *offers))


def test_a_job_that_waits_says_until_when() -> None:
    waiting = steer(job(), SpotDecision(WAIT, ""), 0, replace(SPOT, free=0), FIRM)
    assert waiting.choice is None
    assert waiting.reason == "waits for spot until 09:15 UTC at the latest; then on-demand"


def test_the_zone_the_policy_names_is_the_plans_choice() -> None:
    assert (
        steer(job(), SpotDecision(MachineChoice("spot", zone_name(OTHER)), ""), 0, SPOT, OTHER, FIRM).choice
        == OTHER
    )
    assert steer(job(), SpotDecision(ON_DEMAND, "now"), 0, SPOT, OTHER, FIRM).choice == FIRM


def test_spot_is_better_than_nothing_when_on_demand_cannot_be_had() -> None:
    assert (
        steer(job(), SpotDecision(ON_DEMAND, "now"), 0, SPOT, FIRM, cooldowns=((FIRM.key, "full"),)).choice
        == SPOT
    )


def test_a_job_moves_only_with_a_place_to_go_to_and_to_spot_only_with_a_fresh_checkpoint() -> None:
    to_spot, there = SpotDecision(MachineChoice("spot", zone_name(SPOT)), ""), SpotDecision(ON_DEMAND, "")
    on_spot = job(*started(0, SPOT), saved(700))
    on_demand = job(*started(0, FIRM), saved(700))
    among = spot_choices(plan(on_spot, SPOT, FIRM))
    full = spot_choices(plan(on_spot, SPOT, replace(FIRM, free=0)))
    assert among is not None
    assert full is not None
    assert move_reason(on_spot, among, there, 800_000) == "deadline"
    assert move_reason(on_spot, full, there, 800_000) is None
    assert move_reason(on_spot, among, to_spot, 800_000) is None
    assert move_reason(on_demand, among, to_spot, 730_000) == "cheaper"
    assert move_reason(on_demand, among, to_spot, 1_000_000) is None
    assert has_fresh_checkpoint(on_demand, 730_000)
    assert not has_fresh_checkpoint(job(*started(0, FIRM)), 110_000)


def test_what_trains_is_asked_to_save_and_what_has_not_begun_is_given_up() -> None:
    trains = job(*started(0, SPOT))
    assert move_events(trains, 1, "deadline") == [StopRequested(attempt=1, reason="deadline")]
    (given_up,) = move_events(job(*started(0, SPOT)[:2]), 1, "deadline")
    assert isinstance(given_up, AttemptLost)
    assert (given_up.failure.code, given_up.failure.blame) == ("deadline", Blame.PREEMPTION)
    assert move_events(trains, 2, "deadline") == []
    assert move_events(job(*started(0, SPOT), (200, CancelRequested())), 1, "deadline") == []


# -- whatever the weather -----------------------------------------------------------------------------------------

FAST = ControlPolicy(spot_check_every_s=300, claim_limit_s=300)
STEP_S = FAST.max_decision_delay_s


@dataclass
class Played:
    """A job that lives by the policy, in a world where spot comes, goes and dies unseen."""

    spare_s: float
    set_up: float
    weather: list[bool]
    deaths: list[bool]

    def took_s(self) -> float:
        """By the end of the attempt that does the rest of the work on demand or on spot."""
        told: list[Timed] = []
        at, number = 0.0, 0
        seen = SpotAvailability.initial((zone_name(SPOT),), FAST.spot_check_every_s)
        spec = {
            "limits": {"deadline_s": HOUR + FAST.claim_limit_s + self.spare_s},
            "placement": {"expected_duration_s": HOUR},
        }
        while at < 100 * HOUR:
            view = job(*told, **spec)
            offers = (replace(SPOT, free=None if self._now(self.weather, at) else 0), FIRM)
            ranking = plan(view, *offers)
            among = spot_choices(ranking)
            assert among is not None
            put = spot_situation(view, among, round(at * 1000), FAST)
            assert not isinstance(put, str)
            seen = seen.observe(put.at.available)
            decision = decide_spot(put, seen)
            live = view.live_attempt
            if live is None:
                chosen = apply_decision(ranking, among, decision, put).choice
                if chosen is not None:
                    number += 1
                    told += started(at, chosen, number, set_up=self.set_up, resume=view.newest_checkpoint)[:2]
                    told += [(at + 1, event) for _, event in started(at, chosen, number)[2:3]]
                    at += 1
            else:
                rest = self._ends(view, at)
                if rest is not None:
                    return rest
                told += self._goes_on(view, at)
                died = live.offer.interruptible and self._now(self.deaths, at)
                if died or move_reason(view, among, decision, round(at * 1000)):
                    at += (
                        max_recovery_s(FIRM, FAST) - FAST.max_decision_delay_s
                    )  # noticed, stopped and fenced as late as can be
                    told += lost(at, number)
            at += STEP_S
        return at

    def _ends(self, view: JobView, at: float) -> float | None:
        live = view.live_attempt
        assert live is not None
        if live.training_at_ms is None:
            return None
        end = live.training_at_ms / 1000 + HOUR - trained_s(view, live.resume)
        return end if end <= at else None

    def _goes_on(self, view: JobView, at: float) -> list[Timed]:
        """Trains once it is set up; saves every step."""
        live = view.live_attempt
        assert live is not None
        if live.training_at_ms is not None:
            return [saved(at, live.number)]
        due = live.launching_at_ms / 1000 + self.set_up
        return [(due, TrainingStarted(attempt=live.number))] if due <= at else []

    def _now(self, track: list[bool], at: float) -> bool:
        return bool(track) and track[int(at / STEP_S) % len(track)]


flags = st.lists(st.booleans(), min_size=1, max_size=60)


@settings(max_examples=15, deadline=None)
@given(spare_s=st.floats(0, 3 * HOUR), set_up=st.floats(10, 290), weather=flags, deaths=flags)
def test_whatever_the_weather_a_deadline_that_on_demand_could_meet_is_met(
    spare_s: float, set_up: float, weather: list[bool], deaths: list[bool]
) -> None:
    took_s = Played(spare_s, set_up, weather, deaths).took_s()
    assert took_s <= HOUR + FAST.claim_limit_s + spare_s
