"""Which jobs may use machines that cost money."""

from dataclasses import replace
from typing import Any

import pytest

from anygpu.events.offers import Offer
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import comparison_as_dict, rank
from anygpu.plan.offers.consent import allows_paid
from anygpu.plan.offers.selection import JobConstraints, fit
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

BOX = Offer(backend="box", cpus=4, free=0, wait_reason="all slots are taken", own=True)
CLOUD = Offer(backend="cloud", name="m1", cpus=4, price_microusd_per_hour=600_000)


def spec(**fields: Any) -> JobSpec:
    return from_mapping({"script": "train.py", **fields})


CONSENT: list[dict[str, Any]] = [
    {"placement": {"paid": True}},
    {"placement": {"strategy": "cheapest"}},
    {"placement": {"strategy": "balanced"}},
    {"placement": {"allowed": ["cloud"]}},
    {"placement": {"fallbacks": ["cloud"]}},
    {"placement": {"profile": "cloud"}},
    {"placement": {"region": "eu"}},
    {"placement": {"zone": "eu-a"}},
    {"placement": {"instance_type": "m1"}},
    {"limits": {"max_cost": 5}},
    {"placement": {"strategy": "queue", "paid": True}},
]
NO_CONSENT: list[dict[str, Any]] = [
    {},
    {"placement": {"strategy": "queue"}},
    {"placement": {"forbidden": ["box"]}},
    {"placement": {"expected_duration": "3h", "interruptible": "yes"}},
    {"resources": {"gpu": "A100"}, "limits": {"deadline": "20h"}},
]
FORBIDDEN: list[dict[str, Any]] = [
    {"placement": {"paid": False}},
    {"placement": {"paid": False, "strategy": "cheapest"}},
    {"placement": {"paid": False}, "limits": {"max_cost": 5}},
]


@pytest.mark.parametrize("fields", CONSENT, ids=str)
def test_a_job_that_names_a_place_or_a_budget_may_use_paid_machines(fields: dict[str, Any]) -> None:
    assert allows_paid(spec(**fields), default=False)


@pytest.mark.parametrize("fields", NO_CONSENT, ids=str)
def test_other_jobs_may_use_them_only_if_the_server_allows_it(fields: dict[str, Any]) -> None:
    assert not allows_paid(spec(**fields), default=False)
    assert allows_paid(spec(**fields), default=True)


@pytest.mark.parametrize("fields", FORBIDDEN, ids=str)
def test_what_the_job_forbids_nothing_else_allows(fields: dict[str, Any]) -> None:
    assert not allows_paid(spec(**fields), default=True)


def test_a_paid_offer_without_consent_is_rejected_and_the_reason_names_the_option() -> None:
    candidate = Candidate.from_offer(CLOUD)
    assert "--paid" in fit(spec(), candidate).rejection
    assert "placement.paid: false" in fit(spec(placement={"paid": False}), candidate).rejection
    assert fit(spec(placement={"paid": True}), candidate).rejection == ""
    assert fit(spec(), candidate, JobConstraints(allow_paid=True)).rejection == ""


def test_a_user_who_moves_a_job_to_a_paid_backend_consents_to_that_backend_alone() -> None:
    other = replace(CLOUD, backend="other")
    moved = JobConstraints(preferred_backend="cloud")
    assert fit(spec(), Candidate.from_offer(CLOUD), moved).rejection == ""
    assert "--paid" in fit(spec(), Candidate.from_offer(other), moved).rejection
    assert fit(spec(placement={"paid": False}), Candidate.from_offer(CLOUD), moved).rejection


def test_an_own_machine_with_a_price_needs_no_consent() -> None:
    priced = replace(BOX, free=1, price_microusd_per_hour=200_000)
    assert fit(spec(), Candidate.from_offer(priced)).rejection == ""
    assert fit(spec(placement={"strategy": "queue"}), Candidate.from_offer(priced)).rejection == ""


def test_a_machine_of_a_cloud_needs_consent_even_if_its_free_machines_are_counted() -> None:
    reserved = replace(CLOUD, free=3)
    assert "--paid" in fit(spec(), Candidate.from_offer(reserved)).rejection


def test_a_plan_lists_offers_that_need_consent_last_and_says_so() -> None:
    dear_box = replace(BOX, price_microusd_per_hour=90_000_000)
    candidates = [Candidate.from_offer(CLOUD), Candidate.from_offer(dear_box)]
    plan = comparison_as_dict(rank(spec(), candidates, allow_paid=False), None)
    assert [(each["backend"], each["needs_consent"]) for each in plan["offers"]] == [
        ("box", False),
        ("cloud", True),
    ]
    assert "needs --paid, because it costs money" in plan["offers"][1]["cons"]
    cheapest = comparison_as_dict(rank(spec(placement={"paid": True}), candidates, allow_paid=False), None)
    assert [each["backend"] for each in cheapest["offers"]] == ["cloud", "box"]
    assert not any(each["needs_consent"] for each in cheapest["offers"])


def test_a_plan_rejects_what_the_job_forbids() -> None:
    plan = rank(spec(placement={"paid": False}), [Candidate.from_offer(CLOUD)], allow_paid=True)
    assert [each.reason for each in plan.rejections] == [
        "costs money, and the job forbids paid machines (placement.paid: false)"
    ]
