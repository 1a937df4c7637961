"""Asking the catalog: what fits, cheapest first."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.catalog.builders import TODAY, catalog, names, row

from anygpu.events.offers import Billing
from anygpu.plan.catalog import Catalog, PriceRow
from anygpu.spec.sections import Gpu, Resources


def need(kind: str | None = None, count: int = 1, memory_gib: float | None = None) -> Resources:
    return Resources(gpu=Gpu(kind=kind, count=count, memory_gib=memory_gib))


def test_candidates_come_cheapest_first() -> None:
    found = catalog(row("dear", 3), row("cheap", 1), row("middle", 2)).search()
    assert names(found) == ["cheap", "middle", "dear"]


def test_only_the_kind_that_was_asked_for_is_found_however_it_is_spelt() -> None:
    book = catalog(
        row("a", gpu="A100-80GB"), row("b", gpu="A100-40GB"), row("c", gpu="A10"), row("d", gpu="A10G")
    )
    assert names(book.search(need("a100"))) == ["a", "b"]
    assert names(book.search(need("NVIDIA A100-SXM4-80GB"))) == ["a"]
    assert names(book.search(need("a10"))) == ["c"]


def test_a_machine_must_hold_what_is_needed() -> None:
    book = catalog(
        row("small", 1, gpu="T4"), row("big", 2, gpu="A100-80GB", count=8, cpus=96, memory_gib=1000)
    )
    assert names(book.search(need(count=4))) == ["big"]
    assert names(book.search(need(memory_gib=40))) == ["big"]
    assert names(book.search(Resources(cpus=32))) == ["big"]
    assert names(book.search(Resources(memory_gib=500))) == ["big"]
    assert names(book.search(least_gpu_gib=20)) == ["big"]
    assert names(book.search(need(count=9))) == []


def test_a_size_nobody_knows_is_given_the_benefit_of_the_doubt() -> None:
    assert names(catalog(row("a", cpus=0, memory_gib=0)).search(Resources(cpus=32))) == ["a"]


def test_market_cloud_region_price_and_dedication_can_be_chosen() -> None:
    book = catalog(
        row("a", 1, spot=True),
        row("b", 2, cloud="runpod", region="NL"),
        row("c", 3, region="eu-1"),
        row("d", 4, cloud="modal", region=""),
    )
    assert names(book.search(spot=True)) == ["a"]
    assert names(book.search(spot=False)) == ["b", "c", "d"]
    assert names(book.search(clouds=("gcp",))) == ["a", "c"]
    assert names(book.search(regions=("eu-1",))) == ["c", "d"]
    assert names(book.search(dedicated=True)) == ["a", "c"]
    assert names(book.search(max_microusd_per_hour=2)) == ["a", "b"]


def test_of_a_machine_in_many_regions_the_cheapest_stands_for_all() -> None:
    book = catalog(
        row("a", 2, region="x"), row("a", 1, region="y"), row("a", 9, region="z", spot=True), row("b", 5)
    )
    short = book.search().one_per_shape()
    assert [(each.name, each.region, each.interruptible) for each in short] == [
        ("a", "y", False),
        ("b", "us-1", False),
        ("a", "z", True),
    ]
    assert book.search().region_counts()["gcp", "a", False] == 2


def test_a_candidate_becomes_an_offer_the_router_knows() -> None:
    found = catalog(row("p", 2_000_000, cloud="paperspace", gpu="A100-80GB")).search()[0]
    offer = found.to_offer("ours")
    assert (offer.backend, offer.name, offer.gpu_kind, offer.gpu_memory_gib) == ("ours", "p", "A100-80GB", 80)
    assert (offer.billing, offer.max_run_s, offer.expected_wait_s) == (Billing(step_s=3600), 604800, 180)
    assert found.cost_microusd(10) == 2_000_000
    assert found.to_offer().backend == "paperspace"


def test_a_price_read_more_than_ninety_days_ago_is_marked() -> None:
    found = catalog(row("old", 1, recorded="2026-08-17"), row("new", 2, recorded="2026-08-18")).search()
    assert [(each.age_days, each.stale) for each in found] == [(91, True), (90, False)]


def test_slices_stay_candidates_and_are_made_late() -> None:
    found = catalog(*(row(f"m{n}", n + 1) for n in range(10))).search()
    assert names(found[2:4]) == ["m2", "m3"]
    assert len(found[:3]) == 3
    assert found[-1].name == "m9"


MACHINES = st.lists(
    st.builds(
        row,
        st.sampled_from(["a", "b", "c"]),
        st.integers(1, 50),
        cloud=st.sampled_from(["gcp", "ec2", "runpod"]),
        gpu=st.sampled_from(["T4", "A100-40GB", "A100-80GB"]),
        count=st.integers(1, 8),
        region=st.sampled_from(["x", "y"]),
        spot=st.booleans(),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(
    MACHINES, st.integers(1, 8), st.sampled_from([None, "A100", "T4"]), st.sampled_from([None, True, False])
)
def test_what_is_found_is_what_a_plain_search_finds_in_order(
    rows: list[PriceRow], count: int, kind: str | None, spot: bool | None
) -> None:
    found = Catalog(rows, today=TODAY).search(need(kind, count), spot=spot)
    plain = [
        each
        for each in rows
        if each.gpu_count >= count
        and (kind is None or each.gpu.startswith(kind))
        and spot in (None, each.spot)
    ]
    prices = [each.price_microusd_per_hour for each in found]
    assert prices == sorted(each.price_microusd or 0 for each in plain)


@settings(deadline=None)
@given(MACHINES, st.integers(1, 7))
def test_a_tighter_wish_never_finds_more(rows: list[PriceRow], count: int) -> None:
    book = Catalog(rows, today=TODAY)
    loose, tight = set(book.search(need(count=count))), set(book.search(need(count=count + 1)))
    assert tight <= loose
    assert set(book.search(need(count=count), regions=("x",))) <= loose
