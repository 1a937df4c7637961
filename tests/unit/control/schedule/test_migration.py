"""Whether what is left of a running job is better done elsewhere, what is said of it, and what follows."""

from dataclasses import replace
from typing import Any, cast

import pytest
from tests.unit.control.running import (
    DEAR,
    HOUR,
    NOW,
    SAVED_AT,
    Timed,
    job,
    moved,
    predicted,
    saved,
    settled_in,
    started,
)
from tests.unit.plan.offers.candidate_builders import as_candidates

from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.candidates import target_offer
from anygpu.control.schedule.compare import TermsOf, no_terms
from anygpu.control.schedule.migration import (
    MAX_CANDIDATES,
    describe_migration,
    eligible_attempt,
    find_better_offer,
    is_news,
    migration_events,
    migration_mode,
)
from anygpu.events.facts import BetterPlace
from anygpu.events.offers import Offer
from anygpu.events.types import (
    AttemptLaunching,
    BetterPlaceFound,
    CancelRequested,
    CheckpointSaved,
    Event,
    MigrateRequested,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
)
from anygpu.events.view import JobView
from anygpu.plan.analyse.job import analyse_job
from anygpu.plan.offers.candidates import BackendTerms
from anygpu.plan.offers.migration import MigrationPolicy
from anygpu.plan.offers.selection import JobConstraints, make_plan

POLICY = ControlPolicy(paid_timeout_s=48 * HOUR)
ACT = replace(POLICY, migration=MigrationPolicy(mode="act"))
CHEAP = replace(DEAR, backend="cheap", price_microusd_per_hour=600_000)
CHEAPER = replace(CHEAP, backend="cheaper", price_microusd_per_hour=500_000)
FAST = replace(DEAR, backend="fast", gpu_kind="H100", gpu_memory_gib=80, price_microusd_per_hour=4_000_000)
BOX = replace(DEAR, backend="box", price_microusd_per_hour=0, free=1)
TRAFFIC = BackendTerms(egress_microusd_per_gib=90_000)
FOUND = BetterPlace(
    offer=CHEAP,
    saves_microusd=3_100_000,
    saves_low_microusd=1_000_000,
    sooner_s=-1200,
    sooner_low_s=-4000,
)


def found(
    view: JobView,
    *offers: Offer,
    policy: ControlPolicy = POLICY,
    terms_of: TermsOf = no_terms,
    **now: Any,
) -> BetterPlace | None:
    plan = make_plan(view.spec, as_candidates(offers), JobConstraints(resumable=True, allow_paid=True, **now))
    read = analyse_job(view.spec, {})
    return find_better_offer(view, plan, read, round(NOW * 1000), policy, terms_of)


def where(view: JobView, *offers: Offer, policy: ControlPolicy = POLICY) -> str:
    there = found(view, *offers, policy=policy)
    return there.offer.backend if there is not None else ""


def test_a_much_cheaper_machine_with_the_same_gpu_is_better() -> None:
    there = found(settled_in(), DEAR, CHEAP)
    assert there is not None
    assert there.offer == CHEAP
    assert 12_000_000 < there.saves_microusd < 14_000_000
    assert 0 < there.saves_low_microusd < there.saves_microusd
    assert -600 < there.sooner_s < 0
    assert not there.by_itself


def test_carrying_the_checkpoint_away_costs_what_traffic_costs_here() -> None:
    view = job(*started(0), (400, predicted()), saved(SAVED_AT, size=10 * 2**30))
    free = found(view, DEAR, CHEAP)
    there = found(view, DEAR, CHEAP, terms_of={"dear": TRAFFIC, "cheap": BackendTerms()}.__getitem__)
    assert free is not None
    assert there is not None
    assert free.saves_microusd - there.saves_microusd == 10 * TRAFFIC.egress_microusd_per_gib


def test_by_its_strategy_a_job_goes_for_money_or_for_time() -> None:
    offers = (DEAR, CHEAP, CHEAPER, FAST)
    assert where(settled_in(), *offers) == "cheaper"
    assert where(settled_in(placement={"strategy": "cheapest"}), *offers) == "cheaper"
    assert where(settled_in(placement={"strategy": "fastest"}), *offers) == "fast"
    assert where(settled_in(placement={"strategy": "balanced"}), DEAR, CHEAP) == "cheap"
    assert where(settled_in(placement={"strategy": "queue"}), *offers, BOX) == ""
    listed = {"strategy": "preferred", "fallbacks": ["cheap", "dear", "cheaper"]}
    assert where(settled_in(placement=listed), *offers) == "cheap"
    assert where(settled_in(placement=listed), DEAR, CHEAPER) == ""


def test_a_job_whose_timer_never_saves_is_weighed_like_any_other() -> None:
    seldom = {"paths": ["ckpt/*"], "resume_args": ["--resume"], "every": "1000d"}
    spot = replace(CHEAP, backend="spot", interruptible=True)
    for hours in (10, 10_000):
        view = job(*started(0), (400, predicted(hours)), saved(SAVED_AT), checkpoint=seldom)
        assert where(view, DEAR, spot) == ""
        assert where(view, DEAR, spot, CHEAP, policy=ControlPolicy(paid_timeout_s=1e9)) == "cheap"


def test_what_it_has_trained_already_is_used_up_of_its_time_limit() -> None:
    """Ten hours are left here, at most thirteen there."""
    done = [*started(0), (400, predicted(20)), saved(10 * HOUR)]
    now_ms = round((10 * HOUR + 30) * 1000)
    for hours, expected in ((23, None), (24, CHEAP)):
        view = job(*done, limits={"timeout": f"{hours}h"})
        plan = make_plan(
            view.spec, as_candidates((DEAR, CHEAP)), JobConstraints(resumable=True, allow_paid=True)
        )
        there = find_better_offer(view, plan, None, now_ms, POLICY, no_terms)
        assert (there and there.offer) == expected


def test_places_of_which_nothing_tells_how_fast_they_are_take_nobodys_turn() -> None:
    """However many there are, and whatever they cost: a best place that comes after them is still found."""
    without = [
        replace(BOX, name=f"box{n}", gpu_kind="", gpu_count=0, price_microusd_per_hour=n % 2)
        for n in range(2 * MAX_CANDIDATES)
    ]
    assert where(settled_in(), *without, DEAR, CHEAP) == "cheap"


RESUMED = TrainingResumed(attempt=2, checkpoint_step=1000, first_step=1001)
RESTARTED = TrainingRestarted(attempt=2, checkpoint_step=1000, first_step=1, work_lost_s=600)


def test_checkpoint_files_alone_move_no_job() -> None:
    silent: dict[str, Any] = {"checkpoint": {"paths": ["ckpt/*"], "every": "10m"}}
    assert where(settled_in(**silent), DEAR, CHEAP) == ""
    code = replace(settled_in(**silent), code_resumes=True)
    assert where(code, DEAR, CHEAP) == "cheap"


@pytest.mark.parametrize(("shown", "moves"), [(RESUMED, "cheap"), (RESTARTED, "")])
def test_what_an_earlier_attempt_has_shown_decides_whether_a_job_is_moved(shown: Event, moves: str) -> None:
    again = started(400, DEAR, 2)
    launching = replace(
        cast(AttemptLaunching, again[0][1]), resume=cast(CheckpointSaved, saved(300)[1]).checkpoint
    )
    view = job(
        *started(0, DEAR),
        saved(300),
        *moved(350, 1),
        (400, launching),
        *again[1:],
        (500, shown),
        (800, predicted()),
        saved(1000, 2),
    )
    assert where(view, DEAR, CHEAP) == moves


def test_a_machine_of_ones_own_that_becomes_free_is_the_cheapest() -> None:
    assert where(settled_in(), DEAR, CHEAP, BOX) == "box"
    assert where(settled_in(), DEAR, CHEAP, replace(BOX, free=0)) == "cheap"


def before(*more: Timed, offer: Offer = DEAR, **spec: Any) -> JobView:
    return job(*started(0, offer), (400, predicted()), saved(1000), *more, **spec)


LEFT_BEFORE = [
    *started(0, CHEAP),
    *moved(300, 1),
    *started(300, DEAR, 2),
    (700, predicted()),
    saved(1000, 2),
]
THREE_MOVES: list[Timed] = [
    *(event for n in (1, 2, 3) for event in (*started(n * 50, CHEAPER, n), *moved(n * 50 + 100, n))),
    *started(400, DEAR, 4),
    (700, predicted()),
    saved(1000, 4),
]


@pytest.mark.parametrize(
    ("why", "view"),
    [
        ("its steps have told nothing yet", job(*started(0), saved(1000))),
        ("what is known is from its code", job(*started(0), (400, predicted(basis="code")), saved(1000))),
        ("nothing is saved", job(*started(0), (400, predicted()))),
        ("it has a deadline", settled_in(limits={"deadline": "20h"})),
        ("it is being cancelled", before((1010, CancelRequested()))),
        ("somebody moves it", before((1010, MigrateRequested(to="fast")))),
        ("it is stopping", before((1010, StopRequested(attempt=1, reason="budget")))),
        ("its machine costs nothing", settled_in(replace(DEAR, price_microusd_per_hour=0))),
        ("it does not want to", settled_in(placement={"move": "never"})),
        ("it may not run there", settled_in(placement={"allowed": ["dear"]})),
        ("it wants this region", settled_in(replace(DEAR, region="eu"), placement={"region": "eu"})),
        ("it wants this type", settled_in(placement={"instance_type": "g5.large"})),
        ("it was there before", job(*LEFT_BEFORE)),
        ("it has moved often enough", job(*THREE_MOVES)),
        ("its time limit is too short", settled_in(limits={"timeout": "9h"})),
        ("its budget is too small", settled_in(limits={"max_cost": 6})),
        ("it should be done by now", job(*started(0), (400, predicted(0.2)), saved(1000))),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_nothing_is_better_when(why: str, view: JobView) -> None:
    assert found(view, DEAR, CHEAP) is None, why


@pytest.mark.parametrize(
    ("why", "there"),
    [
        ("it is full", replace(CHEAP, free=0)),
        ("its machines do not live as long", replace(CHEAP, max_run_s=HOUR)),
        ("its memory is less, and nothing says that it will do", replace(CHEAP, gpu_memory_gib=16)),
        ("nobody knows its GPU", replace(CHEAP, gpu_kind="Nobody's")),
        ("it has no GPU", replace(CHEAP, gpu_kind="", gpu_count=0)),
        ("it is hardly cheaper", replace(CHEAP, price_microusd_per_hour=1_700_000)),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_a_place_is_not_better_when(why: str, there: Offer) -> None:
    assert found(settled_in(), DEAR, there) is None, why


def test_a_place_that_refused_or_took_back_a_machine_is_left_alone() -> None:
    assert found(settled_in(), DEAR, CHEAP, avoided=frozenset({CHEAP.key})) is None
    assert found(settled_in(), DEAR, CHEAP, cooldowns=((CHEAP.key, "no capacity"),)) is None


def test_less_memory_will_do_when_the_job_says_so() -> None:
    small = replace(CHEAP, gpu_memory_gib=16)
    view = settled_in(resources={"gpu": {"count": 1, "memory": "12GiB"}})
    assert found(view, DEAR, small) is not None


def test_spot_has_to_be_cheaper_by_what_interruptions_lose() -> None:
    spot = replace(CHEAP, interruptible=True, price_microusd_per_hour=600_000)
    firm = found(settled_in(), DEAR, CHEAP)
    risky = found(settled_in(), DEAR, spot)
    assert firm is not None
    assert risky is not None
    assert risky.saves_low_microusd < firm.saves_low_microusd
    assert found(settled_in(placement={"interruptible": "no"}), DEAR, spot) is None


def test_the_word_of_the_job_wins_over_the_servers() -> None:
    assert migration_mode(settled_in(placement={"move": "act"}).spec, MigrationPolicy()) == "act"
    assert migration_mode(settled_in().spec, MigrationPolicy(mode="never")) == "never"
    assert (
        eligible_attempt(settled_in(placement={"move": "advise"}), MigrationPolicy(mode="never")) is not None
    )
    there = found(settled_in(), DEAR, CHEAP, policy=ACT)
    assert there is not None
    assert there.by_itself


# -- what follows -------------------------------------------------------------------------------------------------


def told(
    view: JobView, better_: BetterPlace | None, at_s: float = NOW, rules: MigrationPolicy = POLICY.migration
) -> list[Event]:
    return migration_events(view, 1, better_, round(at_s * 1000), rules)


def test_advice_is_written_once_and_taken_back_when_it_no_longer_holds() -> None:
    view = settled_in()
    assert told(view, FOUND) == [BetterPlaceFound(attempt=1, better=FOUND)]
    knows = before((1010, BetterPlaceFound(attempt=1, better=FOUND)))
    assert told(knows, replace(FOUND, saves_microusd=3_000_000)) == []
    assert told(knows, None) == [BetterPlaceFound(attempt=1)]
    assert told(view, None) == []


@pytest.mark.parametrize(
    ("newer", "news"),
    [
        (replace(FOUND, offer=CHEAPER), True),
        (replace(FOUND, saves_microusd=1_500_000), True),
        (replace(FOUND, saves_microusd=2_700_000), False),
        (replace(FOUND, sooner_s=-700), False),
        (replace(FOUND, sooner_s=600), True),
        (replace(FOUND, by_itself=True), True),
        (None, True),
    ],
)
def test_it_is_told_again_when_it_has_clearly_changed(newer: BetterPlace | None, news: bool) -> None:
    assert is_news(FOUND, newer, MigrationPolicy()) == news


def test_a_job_that_acts_stops_in_the_minute_after_a_checkpoint() -> None:
    goes = replace(FOUND, by_itself=True)
    fresh, stale = told(settled_in(), goes), told(settled_in(), goes, at_s=1100)
    assert fresh == [
        BetterPlaceFound(attempt=1, better=goes),
        StopRequested(attempt=1, reason="cheaper", message=describe_migration(goes)),
    ]
    assert stale == [BetterPlaceFound(attempt=1, better=goes)]


def test_nothing_is_written_of_a_job_that_has_changed_meanwhile() -> None:
    assert told(before((1010, CancelRequested())), FOUND) == []
    assert migration_events(settled_in(), 2, FOUND, round(NOW * 1000), MigrationPolicy()) == []


def test_what_is_said_names_the_place_the_money_and_the_time() -> None:
    assert describe_migration(FOUND) == "continues on cheap g5 for $3.10 less, 20 min later"
    quicker = replace(FOUND, saves_microusd=-1_000_000, sooner_s=3600)
    assert describe_migration(quicker) == "continues on cheap g5 for $1.00 more, 60 min sooner"


def test_a_job_that_left_takes_the_place_it_left_for() -> None:
    knows = (1010.0, BetterPlaceFound(attempt=1, better=FOUND))
    left = before(knows, *moved(1020, 1))
    asked = before(knows, (1020, MigrateRequested(to="cheap")))
    elsewhere = before(knows, (1020, MigrateRequested(to="fast")))
    assert target_offer(left) == CHEAP
    assert target_offer(asked) == CHEAP
    assert target_offer(elsewhere) is None
    assert target_offer(before(knows)) is None


def test_of_two_machines_at_the_same_backend_the_very_one_is_taken() -> None:
    small = replace(CHEAP, name="small", price_microusd_per_hour=1)
    plan = make_plan(
        settled_in().spec,
        as_candidates([small, CHEAP]),
        JobConstraints(preferred_offer=CHEAP.key, resumable=True, allow_paid=True),
    )
    assert plan.choice == CHEAP
