"""Staying or going: when what is left of a job is surely better done elsewhere."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.events.offers import Billing, Offer
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.migration import (
    EXPECTED_CASE,
    CurrentRun,
    MigrationOption,
    MigrationPolicy,
    RemainingTraining,
    cost_of_moving,
    cost_of_staying,
    evaluate_migration,
    is_worth_moving,
    machine_speed,
    slowdown,
)
from anygpu.plan.predict.step_time import StepWork

HOUR = 3600.0
RULES = MigrationPolicy()
A10 = Offer(backend="dear", name="g5", gpu_kind="A10G", gpu_count=1, price_microusd_per_hour=2_000_000)
CHEAP = replace(A10, backend="cheap", price_microusd_per_hour=500_000)
H100 = replace(A10, backend="fast", gpu_kind="H100", price_microusd_per_hour=3_000_000)
HERE = CurrentRun(offer=A10, price_microusd_per_hour=2_000_000, used_s=HOUR)
STRATEGIES = st.sampled_from([None, "cheapest", "fastest", "balanced"])


def left(hours: float, doubt: float = 1.1, **more: Any) -> RemainingTraining:
    seconds = hours * HOUR
    return RemainingTraining(work_s=Span(expected=seconds, low=seconds / doubt, high=seconds * doubt), **more)


def found(there: Offer, hours: float = 10, here: CurrentRun = HERE, **more: Any) -> MigrationOption:
    weighed = evaluate_migration(here, left(hours, **more), Candidate(offer=there, boot_s=60))
    assert weighed is not None
    return weighed


def test_the_same_gpu_for_a_quarter_of_the_price_pays() -> None:
    weighed = found(CHEAP)
    assert is_worth_moving(weighed, "cheapest", RULES)
    assert 14e6 < weighed.expected.cost_microusd < 15e6  # of 20 dollars
    assert -300 < weighed.expected.time_s < 0
    assert 0 < weighed.saves_low_microusd < weighed.expected.cost_microusd
    assert weighed.sooner_low_s < weighed.expected.time_s


@pytest.mark.parametrize(
    ("why", "there", "hours"),
    [
        ("a tenth is too little", replace(CHEAP, price_microusd_per_hour=1_800_000), 10.0),
        ("a few cents are too little", CHEAP, 0.3),
        ("it is dearer", replace(CHEAP, price_microusd_per_hour=3_000_000), 10.0),
        (
            "the least it bills is more than what is left",
            replace(CHEAP, billing=Billing(minimum_s=36_000)),
            2.0,
        ),
        (
            "it would take more than twice as long",
            replace(CHEAP, gpu_kind="K80", price_microusd_per_hour=1),
            10.0,
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_it_does_not_pay_when(why: str, there: Offer, hours: float) -> None:
    weighed = evaluate_migration(HERE, left(hours), Candidate(offer=there, boot_s=60))
    assert weighed is None or not is_worth_moving(weighed, "cheapest", RULES), why


def test_another_gpu_has_to_be_cheaper_by_more_because_its_speed_is_in_doubt() -> None:
    price = 1_000_000
    same = found(replace(CHEAP, price_microusd_per_hour=price))
    other = found(replace(CHEAP, gpu_kind="L4", price_microusd_per_hour=price))
    assert is_worth_moving(same, "cheapest", RULES)
    assert other.saves_low_microusd < same.saves_low_microusd


def test_the_hour_that_is_paid_for_is_not_given_away() -> None:
    hourly = replace(A10, billing=Billing(step_s=3600, minimum_s=3600))
    here = CurrentRun(offer=hourly, price_microusd_per_hour=2_000_000, used_s=HOUR + 60)
    assert cost_of_staying(here, left(0.9), 0.9 * HOUR).cost_microusd == 0
    assert not is_worth_moving(found(CHEAP, 0.9, here), "cheapest", RULES)


def test_the_fastest_goes_for_time_whatever_that_costs() -> None:
    quick = found(H100)
    assert is_worth_moving(quick, "fastest", RULES)
    assert not is_worth_moving(quick, "cheapest", replace(RULES, min_saving_microusd=2_000_000_000))
    assert not is_worth_moving(found(CHEAP), "fastest", RULES)


def test_balanced_weighs_time_and_money_alike() -> None:
    assert is_worth_moving(found(CHEAP), "balanced", RULES)
    assert not is_worth_moving(found(replace(H100, price_microusd_per_hour=40_000_000)), "balanced", RULES)


def test_preferred_goes_to_a_place_earlier_in_its_list_and_never_to_a_later_one() -> None:
    dearer = found(replace(CHEAP, price_microusd_per_hour=2_500_000))
    assert is_worth_moving(dearer, "preferred", RULES, preference_gain=1)
    assert not is_worth_moving(dearer, "preferred", RULES, preference_gain=0)
    assert not is_worth_moving(found(CHEAP), "preferred", RULES, preference_gain=-1)
    assert is_worth_moving(found(CHEAP), "preferred", RULES, preference_gain=0)
    assert not is_worth_moving(found(CHEAP, 0.1), "preferred", RULES, preference_gain=1)


def test_queue_stays_where_it_is() -> None:
    assert not is_worth_moving(found(CHEAP), "queue", RULES)


def test_a_large_checkpoint_and_what_it_does_not_hold_make_going_dearer() -> None:
    here, candidate = replace(HERE, egress_microusd_per_gib=90_000), Candidate(offer=CHEAP, boot_s=60)
    one = Span(expected=1, low=1, high=1)
    light, heavy, stale = (
        cost_of_moving(here, each, candidate, 10 * HOUR, one, EXPECTED_CASE)
        for each in (left(10), left(10, checkpoint_gib=10), left(10, unsaved_s=600))
    )
    assert heavy.cost_microusd - light.cost_microusd > 900_000
    assert heavy.wall_s > light.wall_s + 200
    assert stale.wall_s == light.wall_s + 600


def test_work_that_ends_before_its_next_checkpoint_is_lost_at_most_once_whole() -> None:
    spot = CurrentRun(offer=replace(A10, interruptible=True), price_microusd_per_hour=2_000_000, used_s=HOUR)
    day, never = (
        cost_of_staying(spot, left(1, checkpoint_every_s=hours * HOUR), HOUR).wall_s for hours in (24.0, 24_000.0)
    )  # fmt: skip
    assert day == never
    assert HOUR < day < 1.2 * HOUR


def test_more_gpus_are_no_faster_and_fewer_are_slower() -> None:
    two = replace(A10, gpu_count=2)
    more = slowdown(machine_speed(replace(A10, gpu_count=8)), machine_speed(two))
    fewer = slowdown(machine_speed(A10), machine_speed(two))
    assert more is not None
    assert fewer is not None
    assert more.expected == 1
    assert 1.7 < fewer.expected < 2


def test_what_a_step_does_decides_how_much_slower_another_gpu_is() -> None:
    there, here = (machine_speed(replace(A10, gpu_kind=kind)) for kind in ("RTX4090", "A100-40GB"))
    computes = StepWork(batch=1024, gmacs=50, mega_activations=1, mega_parameters=10)
    moves = StepWork(batch=1024, gmacs=0.1, mega_activations=100, mega_parameters=10)
    ratios = [slowdown(there, here, step) for step in (computes, None, moves)]
    multiplying, usual, waiting = (each.expected if each is not None else 0.0 for each in ratios)
    assert multiplying > usual > waiting > 1  # half the peak, two thirds of the bandwidth


@pytest.mark.parametrize(
    ("there", "here"),
    [
        (Offer(backend="b"), A10),
        (replace(A10, gpu_kind="Nobody's"), A10),
        (Offer(backend="b", cpus=2), Offer(backend="a", cpus=8)),
    ],
)
def test_where_nothing_tells_how_fast_it_is_nothing_is_weighed(there: Offer, here: Offer) -> None:
    assert slowdown(machine_speed(there), machine_speed(here)) is None
    staying_at = CurrentRun(offer=here, price_microusd_per_hour=2_000_000, used_s=0)
    assert evaluate_migration(staying_at, left(10), Candidate(offer=there)) is None


PRICES = st.integers(min_value=1, max_value=50_000_000)
OFFERS = st.builds(
    Offer,
    backend=st.just("other"),
    gpu_kind=st.sampled_from(["A10G", "L4", "T4", "A100-40GB", "H100", "RTX4090"]),
    gpu_count=st.integers(1, 8),
    interruptible=st.booleans(),
    price_microusd_per_hour=PRICES,
    billing=st.builds(
        Billing, step_s=st.sampled_from([1, 60, 3600]), minimum_s=st.sampled_from([0, 60, 3600])
    ),
)
WORK = st.builds(left, st.floats(0.01, 200), st.floats(1.0, 3.0), unsaved_s=st.floats(0, 3000))


@given(there=OFFERS, work=WORK, strategy=STRATEGIES, price=PRICES, used_s=st.floats(0, 1e6))
def test_it_never_moves_for_a_loss(
    there: Offer, work: RemainingTraining, strategy: str | None, price: int, used_s: float
) -> None:
    here = CurrentRun(
        offer=replace(A10, price_microusd_per_hour=price), price_microusd_per_hour=price, used_s=used_s
    )
    weighed = evaluate_migration(here, work, Candidate(offer=there, boot_s=60))
    assert weighed is not None
    if is_worth_moving(weighed, strategy, RULES):
        saves, sooner = weighed.saves_low_microusd > 0, weighed.sooner_low_s > 0
        assert {"fastest": sooner, "balanced": saves or sooner}.get(strategy or "", saves)
        assert weighed.expected.cost_microusd >= 500_000 or weighed.expected.time_s >= 600


@given(there=OFFERS, work=WORK, price=PRICES, strategy=STRATEGIES)
def test_having_moved_it_does_not_want_to_go_back(
    there: Offer, work: RemainingTraining, price: int, strategy: str | None
) -> None:
    """As long as the other machine is as fast as was thought, and prices stay."""
    here = CurrentRun(
        offer=replace(A10, price_microusd_per_hour=price), price_microusd_per_hour=price, used_s=0
    )
    out = evaluate_migration(here, work, Candidate(offer=there, boot_s=60))
    slower = slowdown(machine_speed(there), machine_speed(A10))
    assert out is not None
    assert slower is not None
    if not is_worth_moving(out, strategy, RULES):
        return
    times = slower.expected
    span = work.work_s
    after = replace(
        work, work_s=Span(expected=span.expected * times, low=span.low * times, high=span.high * times)
    )
    new = CurrentRun(offer=there, price_microusd_per_hour=there.price_microusd_per_hour, used_s=0)
    back = evaluate_migration(new, after, Candidate(offer=here.offer, boot_s=60))
    assert back is None or not is_worth_moving(back, strategy, RULES)


@given(work=WORK, price=PRICES, less=PRICES)
def test_a_lower_price_there_never_makes_a_move_pay_less(
    work: RemainingTraining, price: int, less: int
) -> None:
    low, high = sorted((price, less))
    cheaper, dearer = (
        evaluate_migration(HERE, work, Candidate(offer=replace(CHEAP, price_microusd_per_hour=each)))
        for each in (low, high)
    )
    assert cheaper is not None
    assert dearer is not None
    assert is_worth_moving(cheaper, "cheapest", RULES) or not is_worth_moving(dearer, "cheapest", RULES)
