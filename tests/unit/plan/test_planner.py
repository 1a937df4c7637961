"""The planner's sense: what must hold of any plan, whatever the numbers."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.events.facts import Offer
from anygpu.plan.analyse import analyse
from anygpu.plan.planner import Place, Planned, planned
from anygpu.spec.load import from_mapping
from anygpu.spec.model import JobSpec

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
KINDS = ("T4", "A100-40GB", "H100-SXM", "V100-16GB")


def job(strategy: str = "cheapest", **more: Any) -> JobSpec:
    placement = {"strategy": strategy, "interruptible": "yes"}
    return from_mapping({"script": "train.py", "resources": {"gpu": 1}, "placement": placement, **more})


@st.composite
def places(draw: st.DrawFn) -> list[Place]:
    count = draw(st.integers(1, 8))
    return [
        Place(
            offer=Offer(
                backend=draw(st.sampled_from(("ec2", "lambda", "lab"))),
                name=f"machine-{number}",
                gpu_kind=draw(st.sampled_from(KINDS)),
                gpu_count=draw(st.sampled_from((1, 4))),
                interruptible=draw(st.booleans()),
                price_microusd_per_hour=draw(st.integers(0, 20_000_000)),
            ),
            boot_s=draw(st.integers(0, 600)),
        )
        for number in range(count)
    ]


def rank(plan: Planned, name: str) -> int:
    return [line.place.offer.name for line in plan.lines].index(name)


def dearer(place: Place, by: int) -> Place:
    price = place.offer.price_microusd_per_hour + by
    return replace(place, offer=replace(place.offer, price_microusd_per_hour=price))


@settings(deadline=None)
@given(places(), st.integers(0, 7), st.integers(0, 50_000_000))
def test_raising_a_price_never_improves_an_offers_rank(found: list[Place], which: int, by: int) -> None:
    at = which % len(found)
    raised = [dearer(place, by) if number == at else place for number, place in enumerate(found)]
    name = found[at].offer.name
    assert rank(planned(job(), READ, raised), name) >= rank(planned(job(), READ, found), name)


@settings(deadline=None)
@given(places(), places(), st.sampled_from(("cheapest", "fastest")))
def test_adding_an_offer_never_makes_the_plan_worse(
    found: list[Place], more: list[Place], strategy: str
) -> None:
    wanted = job(strategy)
    before, after = planned(wanted, READ, found).choice, planned(wanted, READ, found + more).choice
    assert before is not None
    assert after is not None
    assert after.score <= before.score


@settings(deadline=None)
@given(places(), st.floats(0.1, 100), st.floats(0.1, 100))
def test_tightening_a_limit_never_adds_an_offer(found: list[Place], one: float, other: float) -> None:
    tight, loose = (
        {
            line.place.offer.name
            for line in planned(
                job(limits={"max_cost": f"${cost:.2f}"}), READ, found, deadline_s=cost * 3600
            ).lines
        }
        for cost in sorted((one, other))
    )
    assert tight <= loose


@settings(deadline=None)
@given(places())
def test_the_same_question_gets_the_same_answer_in_any_order(found: list[Place]) -> None:
    assert planned(job(), READ, found).lines == planned(job(), READ, found[::-1]).lines


def test_an_offer_that_cannot_hold_the_model_is_out_with_the_reason() -> None:
    script = SCRIPT.replace("resnet50", "vit_huge_patch14_224").replace("batch_size=64", "batch_size=512")
    small = Place(offer=Offer(backend="ec2", name="t4", gpu_kind="T4", gpu_count=1, gpu_memory_gib=16))
    (line,) = planned(job(), analyse(script), [small]).rejected
    assert "training is predicted to need" in line.rejected


def test_gpus_that_the_code_does_not_use_are_no_faster_and_said_to_be_idle() -> None:
    one, four = (
        Place(offer=Offer(backend="ec2", name=str(n), gpu_kind="T4", gpu_count=n, price_microusd_per_hour=n))
        for n in (1, 4)
    )
    first, second = planned(job(), READ, [one, four]).lines
    assert first.bill.wall_s == second.bill.wall_s
    assert "pays for GPUs the code does not use" in second.cons


def test_the_short_list_has_one_of_each_kind() -> None:
    many = [
        Place(
            offer=Offer(
                backend="ec2", name=f"m{n}", gpu_kind=KINDS[n % 2], gpu_count=1, price_microusd_per_hour=n
            )
        )
        for n in range(20)
    ]
    kinds = [line.place.offer.gpu_kind for line in planned(job(), READ, many).short()]
    assert sorted(kinds) == sorted(KINDS[:2])
