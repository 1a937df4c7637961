"""Credit is spent first, shown apart from money, and does not widen a limit."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from anygpu.events.offers import Offer
from anygpu.plan.offers.bill import out_of_pocket_cost, weighted_cost
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import RankedOffer, offer_as_dict, rank
from anygpu.spec.load import from_mapping

COSTS, CREDITS = st.integers(0, 10**11), st.sampled_from((0, 1, 400_000, 300_000_000))


def place(name: str, dollars: int, credit: int = 0, **more: Any) -> Candidate:
    offer = Offer(
        backend=name, gpu_kind="T4", gpu_count=1, price_microusd_per_hour=dollars * 1_000_000, **more
    )
    return Candidate(offer=offer, boot_s=0, credit_microusd=credit * 1_000_000)


CASH, ALL_CREDIT, SOME_CREDIT = place("cash", 2), place("credit", 3, credit=300), place("some", 4, credit=10)


def lines(*candidates: Candidate, strategy: str = "cheapest", **limits: Any) -> dict[str, RankedOffer]:
    order = {"fallbacks": ["some", "cash"]} if strategy == "preferred" else {}
    placement = {"strategy": strategy, "expected_duration": "10h", **order}
    spec = from_mapping({"script": "train.py", "placement": placement, "limits": limits})
    return {line.candidate.offer.backend: line for line in rank(spec, candidates).ranked}


def test_a_dollar_of_credit_counts_as_half_a_dollar() -> None:
    found = lines(CASH, SOME_CREDIT, ALL_CREDIT, place("more", 5, credit=300), place("own", 0))
    assert list(found) == ["own", "credit", "cash", "more", "some"]


def test_the_bill_keeps_the_whole_price_and_says_what_is_money() -> None:
    found = lines(CASH, SOME_CREDIT, ALL_CREDIT)
    some = found["some"]
    assert some.bill.cost_microusd.expected > 40_000_000
    assert some.out_of_pocket.expected == some.bill.cost_microusd.expected - 10_000_000
    assert some.pros[0].startswith("$30.07 (to $40.07) from your pocket, after $10.00 of credit")
    assert "$0.00 from your pocket, after $300.00 of credit" in found["credit"].pros
    assert not any("pocket" in words for words in found["cash"].pros)
    told = offer_as_dict(found["credit"])
    assert (told["out_of_pocket_microusd"]["high"], told["credit_microusd"]) == (0, 300_000_000)
    assert told["cost_microusd"]["expected"] > 30_000_000


def test_a_limit_is_on_what_the_job_may_burn_credit_or_not() -> None:
    assert list(lines(CASH, ALL_CREDIT, max_cost="$25")) == ["cash"]


def test_so_does_who_weighs_time_against_money() -> None:
    slow = replace(ALL_CREDIT, boot_s=36_000.0)  # twice the time, and half of three times the price of cash
    assert list(lines(place("cash", 1), slow, strategy="balanced")) == ["cash", "credit"]
    assert list(lines(CASH, ALL_CREDIT, strategy="balanced")) == ["credit", "cash"]


def test_the_order_that_was_asked_for_comes_before_any_credit() -> None:
    assert list(lines(CASH, SOME_CREDIT, ALL_CREDIT, strategy="preferred")) == ["some", "cash", "credit"]


@given(COSTS, COSTS, CREDITS)
def test_a_higher_cost_never_counts_less(one: int, other: int, credit: int) -> None:
    low, high = sorted((one, other))
    for counted in (out_of_pocket_cost, weighted_cost):
        assert counted(low, credit) <= counted(high, credit)


@given(COSTS, CREDITS, CREDITS)
def test_more_credit_never_counts_more(cost: int, one: int, other: int) -> None:
    little, much = sorted((one, other))
    assert weighted_cost(cost, much) <= weighted_cost(cost, little) <= cost
