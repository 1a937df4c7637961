"""The quick way of ranking gives what the plain way gives: every place by itself, then sorted."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.catalog.builders import catalog, row
from tests.unit.plan.offers.candidate_builders import strategies, various_places
from tests.unit.plan.offers.test_comparison import READ, SCRIPT

from anygpu.events.offers import Offer
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse
from anygpu.plan.catalog import candidates_in
from anygpu.plan.offers.bill import Bill, Span, weighted_cost
from anygpu.plan.offers.candidates import Candidate, CandidateSet, group_key
from anygpu.plan.offers.comparison import rank
from anygpu.plan.offers.estimate import Estimator
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

BIG = analyse(SCRIPT.replace("resnet50", "vit_huge_patch14_224"))
DISTRIBUTED = analyse(
    SCRIPT.replace("opt =", "model = torch.nn.parallel.DistributedDataParallel(model)\nopt =")
)


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
    fallbacks = draw(st.sampled_from(([], ["lambda", "ec2"])))
    placement = {"interruptible": "yes", "fallbacks": fallbacks, **dict(conditions)}
    limits = {"max_cost": f"${draw(st.floats(0.01, 60)):.2f}"} if draw(st.booleans()) else {}
    resources = {"gpu": draw(st.sampled_from((0, 0, 1, 2, "A100")))}
    resources |= {"cpus": 8} if draw(st.booleans()) else {}
    resources |= {"nodes": draw(st.sampled_from((1, 1, 2, 3)))}
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


def plain(estimator: Estimator, candidates: list[Candidate]) -> tuple[list[Candidate], dict[int, str]]:
    """Those that fit, best first, and why the others do not, by their number."""
    bills = [estimator.bill(each, estimator.predict_duration(each.offer).training_s) for each in candidates]
    why_not = [estimator.rejection_reason(each, found) for each, found in zip(candidates, bills, strict=True)]
    fit = [(each, found) for each, found, why in zip(candidates, bills, why_not, strict=True) if not why]
    ordered = sorted(fit, key=lambda pair: order(estimator, pair[0], pair[1], fit))
    return [candidate for candidate, _ in ordered], {number: why for number, why in enumerate(why_not) if why}


def order(
    estimator: Estimator, candidate: Candidate, found: Bill, fit: list[tuple[Candidate, Bill]]
) -> tuple[Any, ...]:
    spec, offer, wall_s = estimator.spec, candidate.offer, found.wall_s.expected
    asked = (*spec.placement.fallbacks, offer.backend)
    cost = felt(candidate, found)
    first = {
        "cheapest": (cost,),
        "fastest": (wall_s, cost),
        "balanced": (
            wall_s / max(1.0, min(other.wall_s.expected for _, other in fit))
            + felt(candidate, found) / max(1.0, min(felt(*pair) for pair in fit)),
        ),
        "preferred": (cost,),
        "queue": (cost,),
    }[spec.placement.strategy or "cheapest"]
    tier = (
        estimator.availability(candidate),
        asked.index(offer.backend),
        bool(estimator.doubt(candidate, found)),
    )
    told_apart = offer.price_microusd_per_hour, offer.name, offer.region, offer.zone
    return *tier, *first, wall_s, group_key(candidate), *told_apart


def felt(candidate: Candidate, found: Bill) -> float:
    return weighted_cost(exact(candidate, found), candidate.credit_microusd)


def exact(candidate: Candidate, found: Bill) -> float:
    """A cost that is not rounded."""
    each_s = candidate.offer.billing.billed_s(round(found.wall_s.expected / found.runs))
    billed_s = found.nodes * found.runs * each_s
    return candidate.offer.price_microusd_per_hour * billed_s / 3600 + found.egress_microusd


@settings(deadline=None, max_examples=300)
@given(
    jobs(),
    various_places(),
    st.sampled_from((None, READ, BIG, DISTRIBUTED)),
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.sampled_from((None, remembered)),
)
def test_the_quick_plan_is_the_plain_plan(
    spec: JobSpec, found: list[Candidate], read: Analysis | None, deadline_s: float | None, duration: Any
) -> None:
    estimator = Estimator(spec=spec, analysis=read, deadline_s=deadline_s, past_duration=duration)
    fit, why_not = plain(estimator, found)
    plan = rank(spec, found, read, deadline_s=deadline_s, duration=duration)
    assert [line.candidate for line in plan.ranked] == fit
    assert [line.rejection for line in plan.rejected] == list(why_not.values())
    assert {each.reason: each.offer_count for each in plan.rejections} == Counter(why_not.values())
    assert len(plan.ranked) + len(plan.rejected) == len(found)
    assert (plan.choice.candidate if plan.choice else None) == (fit[0] if fit else None)


@settings(deadline=None)
@given(jobs(), various_places())
def test_the_short_list_is_what_comes_first_of_each_kind(spec: JobSpec, found: list[Candidate]) -> None:
    plan = rank(spec, found, READ)
    first: dict[tuple[str, int, bool], Any] = {}
    for line in plan.ranked:
        offer = line.candidate.offer
        first.setdefault((offer.gpu_kind or offer.name, offer.gpu_count, offer.interruptible), line)
    assert plan.shortlist(len(found)) == tuple(first.values())
    assert plan.shortlist(2) == tuple(first.values())[:2]


@settings(deadline=None)
@given(jobs(), various_places(), st.integers(0, 12))
def test_the_first_few_are_the_first_of_all(spec: JobSpec, found: list[Candidate], most: int) -> None:
    plan = rank(spec, found, READ)
    every = plan.ranked[:]
    assert plan.ranked[:most] == every[:most]
    assert plan.ranked[1:most] == every[1:most]
    assert plan.ranked[-most:] == every[-most:]
    assert tuple(plan.ranked) == every


@settings(deadline=None)
@given(jobs(), various_places())
def test_scores_rise_with_the_rank(spec: JobSpec, found: list[Candidate]) -> None:
    scores = [line.score for line in rank(spec, found, READ).ranked]
    assert scores == sorted(scores)


@settings(deadline=None)
@given(jobs(), various_places(), various_places())
def test_places_that_are_kept_are_planned_on_again_and_again(
    spec: JobSpec, found: list[Candidate], others: list[Candidate]
) -> None:
    kept = CandidateSet.of(found)
    first = rank(spec, kept, READ)
    rank(spec, CandidateSet.of(others))
    assert rank(spec, kept, READ) == first


@settings(deadline=None)
@given(jobs(), various_places(), various_places())
def test_places_that_are_joined_are_planned_on_as_one(
    spec: JobSpec, found: list[Candidate], more: list[Candidate]
) -> None:
    rented = [replace(each, configured=False) for each in found]
    own = [
        replace(each, offer=replace(each.offer, zone=f"own-{each.offer.zone}"), configured=True)
        for each in more
    ]
    together = rank(spec, [*rented, *own], READ)
    assert rank(spec, CandidateSet.of(rented).extend(own), READ) == together


def test_a_catalog_is_planned_on_as_its_places_are() -> None:
    rows = [
        row(f"m{count}", 900_000 * count + 7 * at, count=count, region=f"r{at}", spot=spot, cloud=cloud)
        for cloud in ("gcp", "runpod")
        for count in (1, 2)
        for spot in (False, True)
        for at in range(5)
    ]
    known = candidates_in(catalog(*rows), kinds=(), backends={"runpod": "pod"})
    spec = from_mapping({"script": "train.py", "placement": {"strategy": "cheapest", "interruptible": "yes"}})
    quick, slow = rank(spec, known, READ), rank(spec, list(known), READ)
    assert quick.ranked == slow.ranked
    assert quick.choice is not None
    assert quick.choice.candidate.offer.backend == "pod"
    assert quick.choice.candidate.configured


def test_what_a_time_is_predicted_from_is_said() -> None:
    offer = Offer(backend="ec2", name="one", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=1)
    candidate = Candidate(offer=offer)
    job = from_mapping({"script": "train.py"})
    says = from_mapping({"script": "train.py", "placement": {"expected_duration": "3h"}})
    (history,) = rank(job, [candidate], READ, duration=remembered).ranked
    (code,) = rank(job, [replace(candidate, configured=True)], READ, duration=lambda _: None).ranked
    (said,) = rank(says, [candidate], READ, duration=remembered).ranked
    (nothing,) = rank(job, [candidate]).ranked
    assert [line.basis for line in (history, code, said, nothing)] == ["history", "code", "said", "nothing"]
    assert history.bill.wall_s.expected < 7200
    assert (history.confidence, said.confidence, nothing.confidence) == ("high", "high", "low")


def test_a_shared_machine_is_out_when_the_job_wants_its_own() -> None:
    shared = Candidate(offer=Offer(backend="runpod", gpu_kind="T4", gpu_count=1), dedicated=False)
    job = from_mapping({"script": "train.py", "placement": {"dedicated": True}})
    (line,) = rank(job, [shared], READ).rejected
    assert "shared with other customers" in line.rejection
