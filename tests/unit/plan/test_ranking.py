"""The quick way of ranking gives what the plain way gives: every place by itself, then sorted."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.catalog.builders import catalog, row
from tests.unit.plan.place_builders import strategies, various_places
from tests.unit.plan.test_planner import READ, SCRIPT

from anygpu.events.facts import Offer
from anygpu.plan.analyse import Analysis, analyse
from anygpu.plan.bill import Bill, Span
from anygpu.plan.catalog import places_in
from anygpu.plan.credit import weighed
from anygpu.plan.places import Place, Places, kind_of
from anygpu.plan.planner import planned
from anygpu.plan.question import Question
from anygpu.spec.load import from_mapping
from anygpu.spec.model import JobSpec

BIG = analyse(SCRIPT.replace("resnet50", "vit_huge_patch14_224"))


CONDITIONS: list[tuple[str, Any]] = [
    ("interruptible", "auto"),
    ("interruptible", "no"),
    ("dedicated", True),
    ("allowed", ["lambda", "ec2"]),
    ("forbidden", ["lab"]),
    ("region", "here"),
    ("zone", "0-1"),
    ("instance_type", "machine-0"),
    ("expected_duration", "3h"),
]


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    """With a few of the conditions there are, so that something is left to rank."""
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2))
    placement = {"interruptible": "yes", "fallbacks": ["lambda", "ec2"], **dict(conditions)}
    limits = {"max_cost": f"${draw(st.floats(0.01, 60)):.2f}"} if draw(st.booleans()) else {}
    resources = {"gpu": draw(st.sampled_from((0, 0, 1, 2, "A100")))}
    resources |= {"cpus": 8} if draw(st.booleans()) else {}
    return from_mapping(
        {
            "script": "train.py",
            "resources": resources,
            "placement": {"strategy": draw(strategies()), **placement},
            "limits": limits,
        }
    )


def remembered(offer: Offer) -> Span | None:
    """History knows one kind."""
    return Span(expected=7000.0, low=6000.0, high=9000.0) if offer.gpu_kind == "T4" else None


def plain(question: Question, places: list[Place]) -> tuple[list[Place], dict[int, str]]:
    """Those that fit, best first, and why the others do not, by their number."""
    bills = [question.bill(each, question.predicted(each.offer).training_s) for each in places]
    why_not = [question.why_not(each, found) for each, found in zip(places, bills, strict=True)]
    fit = [(each, found) for each, found, why in zip(places, bills, why_not, strict=True) if not why]
    ordered = sorted(fit, key=lambda pair: order(question.spec, pair[0], pair[1], fit))
    return [place for place, _ in ordered], {number: why for number, why in enumerate(why_not) if why}


def order(spec: JobSpec, place: Place, found: Bill, fit: list[tuple[Place, Bill]]) -> tuple[Any, ...]:
    offer, wall_s = place.offer, found.wall_s.expected
    asked = (*spec.placement.fallbacks, offer.backend)
    cost = felt(place, found)
    first = {
        "cheapest": (cost,),
        "fastest": (wall_s, cost),
        "balanced": (
            wall_s / max(1.0, min(other.wall_s.expected for _, other in fit))
            + felt(place, found) / max(1.0, min(felt(*pair) for pair in fit)),
        ),
        "preferred": (asked.index(offer.backend), cost),
        "queue": (not place.own, cost),
    }[spec.placement.strategy or "cheapest"]
    told_apart = offer.price_microusd_per_hour, offer.name, offer.region, offer.zone
    return *first, wall_s, kind_of(place), *told_apart


def felt(place: Place, found: Bill) -> float:
    return weighed(exact(place, found), place.credit_microusd)


def exact(place: Place, found: Bill) -> float:
    """A cost that is not rounded."""
    billed_s = found.runs * place.offer.billing.billed_s(round(found.wall_s.expected / found.runs))
    return place.offer.price_microusd_per_hour * billed_s / 3600 + found.egress_microusd


@settings(deadline=None, max_examples=300)
@given(
    jobs(),
    various_places(),
    st.sampled_from((None, READ, BIG)),
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.sampled_from((None, remembered)),
)
def test_the_quick_plan_is_the_plain_plan(
    spec: JobSpec, found: list[Place], read: Analysis | None, deadline_s: float | None, duration: Any
) -> None:
    question = Question(spec=spec, read=read, deadline_s=deadline_s, duration=duration)
    fit, why_not = plain(question, found)
    plan = planned(spec, read, found, deadline_s=deadline_s, duration=duration)
    assert [line.place for line in plan.lines] == fit
    assert [line.rejected for line in plan.rejected] == list(why_not.values())
    assert {each.reason: each.offers for each in plan.reasons} == Counter(why_not.values())
    assert len(plan.lines) + len(plan.rejected) == len(found)
    assert (plan.choice.place if plan.choice else None) == (fit[0] if fit else None)


@settings(deadline=None)
@given(jobs(), various_places())
def test_the_short_list_is_what_comes_first_of_each_kind(spec: JobSpec, found: list[Place]) -> None:
    plan = planned(spec, READ, found)
    first: dict[tuple[str, int, bool], Any] = {}
    for line in plan.lines:
        offer = line.place.offer
        first.setdefault((offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible), line)
    assert plan.short(len(found)) == tuple(first.values())
    assert plan.short(2) == tuple(first.values())[:2]


@settings(deadline=None)
@given(jobs(), various_places(), st.integers(0, 12))
def test_the_first_few_are_the_first_of_all(spec: JobSpec, found: list[Place], most: int) -> None:
    plan = planned(spec, READ, found)
    every = plan.lines[:]
    assert plan.lines[:most] == every[:most]
    assert plan.lines[1:most] == every[1:most]
    assert plan.lines[-most:] == every[-most:]
    assert tuple(plan.lines) == every


@settings(deadline=None)
@given(jobs(), various_places())
def test_scores_rise_with_the_rank(spec: JobSpec, found: list[Place]) -> None:
    scores = [line.score for line in planned(spec, READ, found).lines]
    assert scores == sorted(scores)


@settings(deadline=None)
@given(jobs(), various_places(), various_places())
def test_places_that_are_kept_are_planned_on_again_and_again(
    spec: JobSpec, found: list[Place], others: list[Place]
) -> None:
    kept = Places.of(found)
    first = planned(spec, READ, kept)
    planned(spec, None, Places.of(others))
    assert planned(spec, READ, kept) == first


@settings(deadline=None)
@given(jobs(), various_places(), various_places())
def test_places_that_are_joined_are_planned_on_as_one(
    spec: JobSpec, found: list[Place], more: list[Place]
) -> None:
    rented = [replace(each, own=False) for each in found]
    own = [replace(each, offer=replace(each.offer, zone=f"own-{each.offer.zone}"), own=True) for each in more]
    together = planned(spec, READ, [*rented, *own])
    assert planned(spec, READ, Places.of(rented).joined(own)) == together


def test_a_catalog_is_planned_on_as_its_places_are() -> None:
    rows = [
        row(f"m{count}", 900_000 * count + 7 * at, count=count, region=f"r{at}", spot=spot, cloud=cloud)
        for cloud in ("gcp", "runpod")
        for count in (1, 2)
        for spot in (False, True)
        for at in range(5)
    ]
    known = places_in(catalog(*rows), backends={"runpod": "pod"})
    spec = from_mapping({"script": "train.py", "placement": {"strategy": "queue", "interruptible": "yes"}})
    quick, slow = planned(spec, READ, known), planned(spec, READ, list(known))
    assert quick.lines == slow.lines
    assert quick.choice is not None
    assert quick.choice.place.offer.backend == "pod"
    assert quick.choice.place.own


def test_what_a_time_is_predicted_from_is_said() -> None:
    offer = Offer(backend="ec2", name="one", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=1)
    place = Place(offer=offer)
    job = from_mapping({"script": "train.py"})
    says = from_mapping({"script": "train.py", "placement": {"expected_duration": "3h"}})
    (history,) = planned(job, READ, [place], duration=remembered).lines
    (code,) = planned(job, READ, [replace(place, own=True)], duration=lambda _: None).lines
    (said,) = planned(says, READ, [place], duration=remembered).lines
    (nothing,) = planned(job, None, [place]).lines
    assert [line.basis for line in (history, code, said, nothing)] == ["history", "code", "said", "nothing"]
    assert history.bill.wall_s.expected < 7200
    assert (history.confidence, said.confidence, nothing.confidence) == ("high", "high", "low")


def test_a_shared_machine_is_out_when_the_job_wants_its_own() -> None:
    shared = Place(offer=Offer(backend="runpod", gpu_kind="T4", gpu_count=1), dedicated=False)
    job = from_mapping({"script": "train.py", "placement": {"dedicated": True}})
    (line,) = planned(job, READ, [shared]).rejected
    assert "shared with others" in line.rejected
