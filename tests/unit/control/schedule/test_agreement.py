"""`anygpu plan` and the scheduler agree: the first offer of a plan that can start now is the one that a job gets."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.offers.candidate_builders import various_places
from tests.unit.plan.offers.test_comparison import READ
from tests.unit.plan.offers.test_ranking import BIG, jobs, remembered

from anygpu.control.schedule.compare import needs_comparison
from anygpu.events.offers import Offer
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.offers.availability import OfferAvailability
from anygpu.plan.offers.candidates import BackendTerms, Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer, rank
from anygpu.plan.offers.estimate import Estimator
from anygpu.plan.offers.selection import JobConstraints, make_plan
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping


def first_ready(estimator: Estimator, comparison: Comparison) -> RankedOffer | None:
    ready = (
        each
        for each in comparison.ranked
        if estimator.availability(each.candidate) is OfferAvailability.READY
    )
    return next(ready, None)


def scheduled(
    spec: JobSpec, candidates: list[Candidate], constraints: JobConstraints, comparison: Comparison
) -> Offer | None:
    """The offer that the scheduler chooses. Like the scheduler, compare costs only if that can change the choice."""
    fitting = make_plan(spec, candidates, constraints)
    if needs_comparison(spec, [each.offer for each in fitting.ranked if not each.rejection]):
        return make_plan(spec, candidates, constraints, comparison).choice
    return fitting.choice


def check_agreement(
    spec: JobSpec, candidates: list[Candidate], read: Analysis | None, duration: Any, allow_paid: bool
) -> None:
    estimator = Estimator(spec=spec, analysis=read, past_duration=duration, allow_paid=allow_paid)
    comparison = rank(spec, candidates, read, duration=duration, allow_paid=allow_paid)
    constraints = JobConstraints(resumable=estimator.can_resume, allow_paid=allow_paid)
    fitting = make_plan(spec, candidates, constraints)
    if sum(not each.rejection for each in fitting.ranked) == 1 and comparison.rejected:
        return  # the only offer that is left is used even if it is predicted to exceed a limit
    planned = first_ready(estimator, comparison)
    chosen = scheduled(spec, candidates, constraints, comparison)
    assert (planned is None) == (chosen is None)
    if planned is not None and chosen is not None:
        line = comparison.by_offer[chosen.key]
        assert (line.score, line.bill.wall_s) == (planned.score, planned.bill.wall_s)


@settings(deadline=None, max_examples=300)
@given(
    jobs(),
    various_places(),
    st.sampled_from((None, READ, BIG)),
    st.sampled_from((None, remembered)),
    st.booleans(),
)
def test_the_first_usable_offer_of_a_plan_is_the_one_that_starts(
    spec: JobSpec, found: list[Candidate], read: Analysis | None, duration: Any, allow_paid: bool
) -> None:
    check_agreement(spec, [as_configured(each) for each in found], read, duration, allow_paid)


def as_configured(candidate: Candidate) -> Candidate:
    terms = BackendTerms(candidate.credit_microusd, candidate.egress_microusd_per_gib)
    return Candidate.from_offer(candidate.offer, terms)


def test_of_two_free_machines_the_faster_one_is_planned_and_used() -> None:
    slow = Offer(backend="alpha", name="a", gpu_kind="T4", gpu_count=1, gpu_memory_gib=16, free=1)
    fast = Offer(backend="beta", name="b", gpu_kind="H100-SXM", gpu_count=1, gpu_memory_gib=80, free=1)
    candidates = [Candidate.from_offer(each) for each in (slow, fast)]
    spec = from_mapping({"script": "train.py"})
    comparison = rank(spec, candidates, READ)
    assert comparison.ranked[0].candidate.offer is fast
    assert scheduled(spec, candidates, JobConstraints(), comparison) is fast
