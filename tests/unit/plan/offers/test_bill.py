"""The bill of a run: every part counts, the provider's rule decides, and nothing gets cheaper by becoming worse."""

import random
from dataclasses import replace
from math import inf, isclose, sqrt

from hypothesis import given
from hypothesis import strategies as st

from anygpu.events.offers import Billing, Offer
from anygpu.plan.offers.bill import (
    Overheads,
    RunEstimate,
    Span,
    checkpoint_interval_s,
    estimate_bill,
    expected_wall_s,
)

HOUR = 3600.0
CLOUD = Offer(backend="cloud", price_microusd_per_hour=1_000_000)
SPOT = replace(CLOUD, interruptible=True, price_microusd_per_hour=300_000)
RUN = RunEstimate(training_s=Span(expected=10 * HOUR, low=8 * HOUR, high=14 * HOUR))
PLACE = Overheads(boot_s=60)


def test_an_uninterrupted_run_costs_its_time_and_its_set_up() -> None:
    found = estimate_bill(CLOUD, RUN, PLACE)
    assert found.wall_s.expected == 10 * HOUR + 120
    assert found.cost_microusd.expected == round((10 * HOUR + 120) / 3600 * 1_000_000)
    assert found.cost_microusd.low < found.cost_microusd.expected < found.cost_microusd.high
    assert (found.interruptions_s, found.checkpoint_every_s) == (0, float("inf"))


def test_spot_takes_longer_and_is_cheaper_while_interruptions_are_rare() -> None:
    dear, cheap = estimate_bill(CLOUD, RUN, PLACE), estimate_bill(SPOT, RUN, PLACE)
    assert cheap.wall_s.expected > dear.wall_s.expected
    assert cheap.cost_microusd.expected < 0.4 * dear.cost_microusd.expected
    assert 60 < cheap.checkpoint_every_s < HOUR


def test_spot_that_is_taken_every_few_minutes_is_no_bargain() -> None:
    flapping = estimate_bill(SPOT, RUN, replace(PLACE, between_interruptions_s=120))
    assert flapping.cost_microusd.expected > estimate_bill(CLOUD, RUN, PLACE).cost_microusd.expected


def test_a_short_run_pays_the_minimum() -> None:
    hourly = replace(CLOUD, billing=Billing(step_s=3600, minimum_s=3600))
    assert (
        estimate_bill(hourly, RunEstimate(training_s=Span.exactly(30)), PLACE).cost_microusd.expected
        == 1_000_000
    )


def test_data_takes_time_and_leaving_costs_money() -> None:
    heavy = replace(RUN, upload_gib=10, download_gib=2)
    found = estimate_bill(CLOUD, heavy, replace(PLACE, egress_microusd_per_gib=90_000, gib_per_s=0.1))
    assert (round(found.transfer_s), found.egress_microusd) == (120, 180_000)


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.booleans())
def test_a_higher_price_never_lowers_the_bill(one: int, other: int, spot: bool) -> None:
    cheaper, dearer = (
        estimate_bill(replace(CLOUD, interruptible=spot, price_microusd_per_hour=price), RUN, PLACE)
        for price in sorted((one, other))
    )
    assert cheaper.cost_microusd.expected <= dearer.cost_microusd.expected


@given(st.floats(60, 1e6), st.floats(60, 1e6))
def test_more_interruptions_never_make_it_faster(one: float, other: float) -> None:
    often, rarely = (
        estimate_bill(SPOT, RUN, replace(PLACE, between_interruptions_s=life))
        for life in sorted((one, other))
    )
    assert rarely.wall_s.expected <= often.wall_s.expected * (1 + 1e-9)


def played(
    chance: random.Random, *, work_s: float, save_s: float, every_s: float, mtbf_s: float, restart_s: float
) -> float:
    """One training on machines that die: how long it took."""
    now = done = 0.0
    dies = chance.expovariate(1 / mtbf_s)
    while done < work_s:
        piece = min(every_s, work_s - done)
        if now + piece + save_s <= dies:
            now, done = now + piece + save_s, done + piece
        else:
            now = dies + restart_s
            dies = now + chance.expovariate(1 / mtbf_s)
    return now


def test_the_expected_time_is_the_mean_of_what_happens() -> None:
    chance = random.Random(5)
    facts = {"work_s": 50_000.0, "save_s": 20.0, "every_s": 600.0, "restart_s": 120.0}
    times = [played(chance, mtbf_s=7200, **facts) for _ in range(2000)]
    assert isclose(sum(times) / 2000, expected_wall_s(between_failures_s=7200, **facts), rel_tol=0.03)


def test_no_other_pause_between_checkpoints_wastes_noticeably_less() -> None:
    facts = {"save_s": 30.0, "between_failures_s": 10_000.0, "restart_s": 100.0}
    best = expected_wall_s(1e6, every_s=checkpoint_interval_s(30, 10_000), **facts)
    others = [expected_wall_s(1e6, every_s=every, **facts) for every in range(100, 5000, 50)]
    assert best <= 1.005 * min(others)


def test_it_is_youngs_rule_when_saving_is_quick() -> None:
    assert isclose(checkpoint_interval_s(1, 100_000), sqrt(2 * 1 * 100_000), rel_tol=0.02)


def test_where_nothing_dies_nothing_needs_to_be_saved() -> None:
    assert checkpoint_interval_s(10, inf) == inf
    assert expected_wall_s(100, save_s=10, every_s=inf, between_failures_s=inf, restart_s=5) == 100


def test_what_is_never_done_is_still_a_number() -> None:
    """Somebody who saves by calls of his own says `every: 1000d`."""
    facts = {"save_s": 5.0, "between_failures_s": 21_600.0, "restart_s": 180.0}
    never_s = expected_wall_s(1e9, every_s=1000 * 86_400.0, **facts)
    assert 1e20 < never_s < 1e30
