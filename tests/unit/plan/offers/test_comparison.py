"""The planner's sense: what must hold of any plan, whatever the numbers."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.offers.candidate_builders import strategies, various_places

from anygpu.events.offers import Offer
from anygpu.plan.analyse.script import analyse
from anygpu.plan.offers.availability import availability
from anygpu.plan.offers.bill import weighted_cost
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer, rank
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

SCRIPT = """
import torch, timm
model = timm.create_model("resnet50").cuda()
opt = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(data, batch_size=64, num_workers=4)
state = torch.load("last.pt")
for epoch in range(30):
    for x, y in loader:
        loss = model(x).sum(); loss.backward(); opt.step()
    torch.save(model.state_dict(), "last.pt")
"""
READ = analyse(SCRIPT)
FALLBACKS = ["lab", "lambda"]
KINDS = ("T4", "A100-40GB", "H100-SXM", "V100-16GB")
MORE: list[dict[str, Any]] = [{"gpu": 4}, {"gpu": "A100"}, {"gpu": 1, "cpus": 32}, {"gpu": "24GB"}]


def job(strategy: str = "cheapest", **more: Any) -> JobSpec:
    placement = {"strategy": strategy, "interruptible": "yes", "fallbacks": FALLBACKS}
    return from_mapping({"script": "train.py", "resources": {"gpu": 1}, "placement": placement} | more)


def ahead(plan: Comparison, candidate: Candidate) -> float:
    """How many come before it; all of them when it is out."""
    zones = [line.candidate.offer.zone for line in plan.ranked]
    return zones.index(candidate.offer.zone) if candidate.offer.zone in zones else inf


def tier(line: RankedOffer) -> tuple[int, int]:
    """What is compared before cost and time: how soon the offer is usable, and the job's order of backends."""
    backend = line.candidate.offer.backend
    position = FALLBACKS.index(backend) if backend in FALLBACKS else len(FALLBACKS)
    return availability(line.candidate, needs_consent=line.needs_consent), position


def felt(line: RankedOffer) -> float:
    return weighted_cost(line.bill.cost_microusd.expected, line.candidate.credit_microusd)


def fitting(plan: Comparison) -> set[str]:
    return {line.candidate.offer.zone for line in plan.ranked}


def dearer(candidate: Candidate, by: int) -> Candidate:
    price = candidate.offer.price_microusd_per_hour + by
    return replace(candidate, offer=replace(candidate.offer, price_microusd_per_hour=price))


@settings(deadline=None)
@given(various_places(), st.integers(0, 7), st.integers(0, 50_000_000), strategies())
def test_raising_a_price_never_improves_an_offers_rank(
    found: list[Candidate], which: int, by: int, strategy: str
) -> None:
    at = which % len(found)
    raised = [dearer(candidate, by) if number == at else candidate for number, candidate in enumerate(found)]
    for wanted in (job(strategy), job(strategy, limits={"max_cost": "$20"})):
        before, after = rank(wanted, found, READ), rank(wanted, raised, READ)
        assert ahead(after, found[at]) >= ahead(before, found[at])


@settings(deadline=None)
@given(various_places(), various_places(), strategies())
def test_adding_an_offer_never_makes_the_plan_worse(
    found: list[Candidate], more: list[Candidate], strategy: str
) -> None:
    wanted = job(strategy)
    others = [replace(each, offer=replace(each.offer, zone=f"more-{each.offer.zone}")) for each in more]
    before, after = rank(wanted, found, READ), rank(wanted, found + others, READ)
    assert fitting(before) <= fitting(after)
    if before.choice is None:
        return
    assert after.choice is not None
    assert tier(after.choice) <= tier(before.choice)
    if tier(after.choice) < tier(before.choice):
        return
    if strategy == "balanced":  # its scores are relative to the best there is
        assert after.choice.bill.wall_s.expected <= before.choice.bill.wall_s.expected or felt(
            after.choice
        ) <= felt(before.choice)
    else:
        assert after.choice.score <= before.choice.score


@settings(deadline=None)
@given(various_places(), st.floats(0.1, 100), st.floats(0.1, 100), strategies())
def test_tightening_a_limit_never_adds_an_offer(
    found: list[Candidate], one: float, other: float, strategy: str
) -> None:
    tight, loose = sorted((one, other))
    for low, high in (
        (
            rank(job(strategy, limits={"max_cost": f"${tight:.2f}"}), found, READ),
            rank(job(strategy, limits={"max_cost": f"${loose:.2f}"}), found, READ),
        ),
        (
            rank(job(strategy), found, READ, deadline_s=tight * 3600),
            rank(job(strategy), found, READ, deadline_s=loose * 3600),
        ),
    ):
        assert fitting(low) <= fitting(high)


@pytest.mark.parametrize(
    "tighter",
    [
        {"allowed": ["ec2"]},
        {"forbidden": ["ec2"]},
        {"dedicated": True},
        {"region": "here"},
        {"zone": "0-0"},
        {"instance_type": "machine-0"},
        {"interruptible": "no"},
        {"interruptible": "auto"},
    ],
    ids=str,
)
@settings(deadline=None, max_examples=40)
@given(found=various_places(), strategy=strategies())
def test_a_further_condition_never_adds_an_offer(
    tighter: dict[str, Any], found: list[Candidate], strategy: str
) -> None:
    loose = {"strategy": strategy, "interruptible": "yes"}
    tight = rank(job(placement={**loose, **tighter}), found, READ)
    assert fitting(tight) <= fitting(rank(job(placement=loose), found, READ))


@settings(deadline=None, max_examples=60)
@given(found=various_places(), strategy=strategies(), resources=st.sampled_from(MORE))
def test_asking_for_more_never_adds_an_offer(
    found: list[Candidate], strategy: str, resources: dict[str, Any]
) -> None:
    tight = rank(job(strategy, resources=resources), found, READ)
    assert fitting(tight) <= fitting(rank(job(strategy), found, READ))


@settings(deadline=None)
@given(various_places(), strategies())
def test_the_same_question_gets_the_same_answer_in_any_order(found: list[Candidate], strategy: str) -> None:
    first = rank(job(strategy), found, READ)
    assert rank(job(strategy), found, READ) == first
    turned = rank(job(strategy), found[::-1], READ)
    assert turned.ranked == first.ranked
    assert turned.shortlist() == first.shortlist()
    assert list(turned.rejected)[::-1] == list(first.rejected)


def test_an_offer_that_cannot_hold_the_model_is_out_with_the_reason() -> None:
    script = SCRIPT.replace("resnet50", "vit_huge_patch14_224").replace("batch_size=64", "batch_size=512")
    offer = Offer(backend="ec2", name="t4", gpu_kind="T4", gpu_count=1, gpu_memory_gib=16)
    rented = Candidate(offer=replace(offer, price_microusd_per_hour=1))
    (line,) = rank(job(), [rented], analyse(script)).rejected
    assert "training is predicted to need" in line.rejection
    (own,) = rank(job(), [Candidate(offer=offer)], analyse(script)).ranked
    assert "training is predicted to need" in own.doubt  # trying costs nothing


def test_gpus_that_the_code_does_not_use_are_no_faster_and_said_to_be_idle() -> None:
    one, four = (
        Candidate(
            offer=Offer(backend="ec2", name=str(n), gpu_kind="T4", gpu_count=n, price_microusd_per_hour=n)
        )
        for n in (1, 4)
    )
    first, second = rank(job(), [one, four], READ).ranked
    assert first.bill.wall_s == second.bill.wall_s
    assert "you pay for GPUs that the code does not use" in second.cons
    free = replace(four, offer=replace(four.offer, price_microusd_per_hour=0))
    assert all("you pay" not in con for con in rank(job(), [free], READ).ranked[0].cons)


@pytest.mark.parametrize(("model", "first"), [("efficientnet_b0", "RTX4090"), ("wide_resnet101_2", "L40S")])
def test_which_gpu_is_fastest_depends_on_the_work(model: str, first: str) -> None:
    candidates = [
        Candidate(offer=Offer(backend="ec2", gpu_kind=kind, gpu_count=1)) for kind in ("L40S", "RTX4090")
    ]
    script = SCRIPT.replace("resnet50", model).replace("loss =", "with torch.autocast('cuda'): loss =")
    assert rank(job("fastest"), candidates, analyse(script)).ranked[0].candidate.offer.gpu_kind == first


def test_the_short_list_has_one_of_each_kind() -> None:
    many = [
        Candidate(
            offer=Offer(
                backend="ec2", name=f"m{n}", gpu_kind=KINDS[n % 2], gpu_count=1, price_microusd_per_hour=n
            )
        )
        for n in range(20)
    ]
    kinds = [line.candidate.offer.gpu_kind for line in rank(job(), many, READ).shortlist()]
    assert sorted(kinds) == sorted(KINDS[:2])
