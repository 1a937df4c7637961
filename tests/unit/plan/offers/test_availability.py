"""Plans list first what a person can use: own and configured machines, then accounts to add, then the rest."""

from dataclasses import replace
from datetime import date

from tests.unit.plan.catalog.builders import row
from tests.unit.plan.offers.test_comparison import SCRIPT

from anygpu.events.offers import Offer
from anygpu.plan.analyse.script import analyse
from anygpu.plan.catalog import Catalog, candidates_in
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import offer_as_dict, rank
from anygpu.spec.load import from_mapping

JOB = from_mapping({"script": "train.py", "placement": {"strategy": "cheapest"}})
T4 = Offer(backend="ec2", gpu_kind="T4", gpu_count=1, gpu_memory_gib=16, price_microusd_per_hour=500_000)
HUGE = analyse(SCRIPT.replace("resnet50", "vit_huge_patch14_224").replace("batch_size=64", "batch_size=512"))
# Neither the batch size nor the precision is in this code.
VAGUE_CODE = (
    "import sys, timm\nmodel = timm.create_model('vit_huge_patch14_224')\ntrain(model, sys.argv[1])\n"
)


def place(name: str, dollars: float, **more: object) -> Candidate:
    offer = replace(T4, backend=name, name=f"{name}-t4", price_microusd_per_hour=round(dollars * 1e6))
    return replace(Candidate(offer=offer), **more)  # type: ignore[arg-type]


def test_offers_that_nobody_can_use_do_not_lead() -> None:
    found = [
        place("vast", 0.1, has_backend=False),
        place("old", 0.2, stale_days=400, price_date="2025-10-01"),
        place("runpod", 0.3, stale_days=120, price_date="2026-08-01"),
        place("account", 0.9, configured=True),
        replace(
            place("own", 0, configured=True), offer=Offer(backend="own", gpu_kind="T4", gpu_count=1, free=0)
        ),
    ]
    lines = rank(JOB, found).ranked
    assert [line.candidate.offer.backend for line in lines] == ["account", "own", "runpod", "vast", "old"]
    against = {line.candidate.offer.backend: line.cons for line in lines}
    assert "needs an account: anygpu backend add runpod --kind runpod" in against["runpod"]
    assert "anygpu has no backend for vast yet" in against["vast"]
    assert "its price is of 2025-10-01" in against["old"]
    assert not any("account" in text for text in against["account"])
    told = [offer_as_dict(line) for line in lines]
    assert [each["has_backend"] for each in told] == [True, True, True, False, True]
    assert told[-1]["price_date"] == "2025-10-01"


def test_strategies_do_not_change_that() -> None:
    slow = replace(place("account", 0.9, configured=True), boot_s=7200.0)
    for strategy in ("cheapest", "fastest", "balanced"):
        spec = from_mapping({"script": "train.py", "placement": {"strategy": strategy}})
        first, second = rank(spec, [place("vast", 0.1, has_backend=False), slow]).ranked
        assert (first.candidate.offer.backend, second.candidate.offer.backend) == ("account", "vast")


def test_prices_of_one_machine_may_be_of_different_age() -> None:
    rows = [
        row("m1", 100_000, region="cheap", recorded="2025-01-01", cloud="runpod"),
        row("m1", 900_000, region="dear", recorded="2026-11-01", cloud="runpod"),
    ]
    catalog = Catalog(rows, today=date(2026, 11, 18))
    lines = rank(JOB, candidates_in(catalog, kinds={"runpod"})).ranked
    assert [line.candidate.offer.region for line in lines] == ["dear", "cheap"]


def test_a_vague_guess_of_the_memory_warns_and_rejects_nothing() -> None:
    vague = analyse(VAGUE_CODE)
    assert vague.characteristics is not None
    needs = vague.characteristics.gpu_memory_gb
    assert needs.confidence_level == "low"
    small = Candidate(offer=replace(T4, gpu_memory_gib=needs.value / 4), configured=True)
    large = Candidate(
        offer=replace(T4, name="large", gpu_memory_gib=needs.value * 2, price_microusd_per_hour=10**9)
    )
    comparison = rank(JOB, [small, replace(large, configured=True)], vague)
    assert not comparison.rejected
    first, second = comparison.ranked
    assert first.candidate.offer.name == "large"
    assert "training is predicted to need" in second.doubt
    assert second.doubt in second.cons


def test_a_gpu_that_the_user_names_is_not_rejected_for_what_the_code_says() -> None:
    rented = [Candidate(offer=T4, configured=True)]
    assert not rank(JOB, rented, HUGE).ranked
    for gpu in ("T4", "8GB"):
        named = from_mapping(
            {"script": "train.py", "resources": {"gpu": gpu}, "placement": {"strategy": "cheapest"}}
        )
        (line,) = rank(named, rented, HUGE).ranked
        assert "training is predicted to need" in line.doubt


def test_a_user_who_asks_for_no_gpu_gets_none() -> None:
    cpu = [Candidate(offer=Offer(backend="ec2", name="cpu", price_microusd_per_hour=1), configured=True)]
    needs_gpu = analyse(SCRIPT)
    assert "has no GPU" in rank(JOB, cpu, needs_gpu).rejected[0].rejection
    without = from_mapping(
        {"script": "train.py", "resources": {"gpu": 0}, "placement": {"strategy": "cheapest"}}
    )
    assert rank(without, cpu, needs_gpu).ranked
