"""The bill of a run: every part counts, the provider's rule decides, and nothing gets cheaper by becoming worse."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from anygpu.events.facts import Billing, Offer
from anygpu.plan.bill import Circuit, Run, Span, bill

HOUR = 3600.0
CLOUD = Offer(backend="cloud", price_microusd_per_hour=1_000_000)
SPOT = replace(CLOUD, interruptible=True, price_microusd_per_hour=300_000)
RUN = Run(training_s=Span(expected=10 * HOUR, low=8 * HOUR, high=14 * HOUR))
PLACE = Circuit(boot_s=60)


def test_an_uninterrupted_run_costs_its_time_and_its_set_up() -> None:
    found = bill(CLOUD, RUN, PLACE)
    assert found.wall_s.expected == 10 * HOUR + 120
    assert found.cost_microusd.expected == round((10 * HOUR + 120) / 3600 * 1_000_000)
    assert found.cost_microusd.low < found.cost_microusd.expected < found.cost_microusd.high
    assert (found.saving_s, found.every_s) == (0, float("inf"))


def test_spot_takes_longer_and_is_cheaper_while_interruptions_are_rare() -> None:
    dear, cheap = bill(CLOUD, RUN, PLACE), bill(SPOT, RUN, PLACE)
    assert cheap.wall_s.expected > dear.wall_s.expected
    assert cheap.cost_microusd.expected < 0.4 * dear.cost_microusd.expected
    assert 60 < cheap.every_s < HOUR


def test_spot_that_is_taken_every_few_minutes_is_no_bargain() -> None:
    flapping = bill(SPOT, RUN, replace(PLACE, between_interruptions_s=120))
    assert flapping.cost_microusd.expected > bill(CLOUD, RUN, PLACE).cost_microusd.expected


def test_a_short_run_pays_the_minimum() -> None:
    hourly = replace(CLOUD, billing=Billing(step_s=3600, minimum_s=3600))
    assert bill(hourly, Run(training_s=Span.exactly(30)), PLACE).cost_microusd.expected == 1_000_000


def test_data_takes_time_and_leaving_costs_money() -> None:
    heavy = replace(RUN, upload_gib=10, download_gib=2)
    found = bill(CLOUD, heavy, replace(PLACE, egress_microusd_per_gib=90_000, gib_a_second=0.1))
    assert (round(found.transfer_s), found.egress_microusd) == (120, 180_000)


@given(st.integers(0, 10**8), st.integers(0, 10**8), st.booleans())
def test_a_higher_price_never_lowers_the_bill(one: int, other: int, spot: bool) -> None:
    cheaper, dearer = (
        bill(replace(CLOUD, interruptible=spot, price_microusd_per_hour=price), RUN, PLACE)
        for price in sorted((one, other))
    )
    assert cheaper.cost_microusd.expected <= dearer.cost_microusd.expected


@given(st.floats(60, 1e6), st.floats(60, 1e6))
def test_more_interruptions_never_make_it_faster(one: float, other: float) -> None:
    often, rarely = (
        bill(SPOT, RUN, replace(PLACE, between_interruptions_s=life)) for life in sorted((one, other))
    )
    assert rarely.wall_s.expected <= often.wall_s.expected * (1 + 1e-9)
