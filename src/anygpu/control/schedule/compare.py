"""Compare offers by the time and cost that a job needs on each, and store the comparison as a plan."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from anygpu.control.clock import Clock
from anygpu.control.progress import deadline_ms, trained_s
from anygpu.events.facts import Prediction
from anygpu.events.offers import Offer, OfferKey
from anygpu.events.types import Event, JobPlanned
from anygpu.events.view import JobView
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.offers.candidates import NO_TERMS, BackendTerms, Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer, comparison_as_dict, offer_as_dict, rank
from anygpu.plan.offers.fit import code_resumes
from anygpu.plan.offers.selection import Plan
from anygpu.plan.predict.history import PastRun, past_durations, rough_duration
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.uploads import Plans
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

ReadAnalysis = Callable[[JobSpec, str], Awaitable[Analysis | None]]  # spec, organisation
ReadPastRuns = Callable[[JobSpec, str], Awaitable[Sequence[PastRun]]]  # spec, organisation
TermsOf = Callable[[str], BackendTerms]  # by backend
T = TypeVar("T")


def no_terms(backend: str) -> BackendTerms:
    """Return the price terms of a backend without credit and without charges for downloads."""
    return NO_TERMS


async def no_analysis(spec: JobSpec, organisation: str) -> Analysis | None:
    """Return no analysis, for servers that do not analyse code."""
    return None


async def no_past_runs(spec: JobSpec, organisation: str) -> Sequence[PastRun]:
    """Return no past runs, for servers that do not record outcomes."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobComparison:
    """All offers with the estimated time and cost of the job on each, and the analysis of the job's code."""

    comparison: Comparison
    analysis: Analysis | None
    plan_keys: dict[OfferKey, str] = field(default_factory=dict)  # keys of stored plans, by the chosen offer

    def ranked(self, offer: Offer) -> RankedOffer | None:
        return self.comparison.by_offer.get(offer.key)


class OfferComparer:
    """Compares offers for a job, using the analysis of its code and its past runs."""

    def __init__(
        self,
        read: ReadAnalysis,
        plans: Plans,
        clock: Clock,
        remembers: ReadPastRuns = no_past_runs,
        terms_of: TermsOf = no_terms,
        *,
        allow_paid: bool = False,
    ) -> None:
        self._read_analysis, self._plans, self._clock = read, plans, clock
        self._read_past_runs, self._terms_of = remembers, terms_of
        self._allow_paid = allow_paid

    def candidate(self, offer: Offer) -> Candidate:
        return Candidate.from_offer(offer, self.terms_of(offer.backend))

    def terms_of(self, backend: str) -> BackendTerms:
        return self._terms_of(backend)

    async def compare(self, view: JobView, candidates: Sequence[Candidate]) -> JobComparison:
        """Compare the candidates for a job.

        If the analysis or the past runs cannot be read, the comparison is made without them.
        """
        read = await self.analysis(view)
        past = await _none_on_error(self._read_past_runs(view.spec, view.organisation))
        duration = past_durations(view.spec, read, past or ())
        left_s = deadline_left_s(view, self._clock.wall_ms())
        rank_all = partial(
            rank,
            view.spec,
            candidates,
            read,
            duration=duration,
            rough_duration=rough_duration(view.spec, past or ()),
            allow_paid=self._allow_paid or has_paid_before(view),
            resumable=view.resumed,
        )
        comparison = rank_all(deadline_s=left_s)
        if left_s is not None and not comparison.ranked:  # no offer meets the deadline: ignore it
            comparison = rank_all()
        return JobComparison(comparison=comparison, analysis=read)

    async def analysis(self, view: JobView) -> Analysis | None:
        return await _none_on_error(self._read_analysis(view.spec, view.organisation))

    async def store_plan(self, view: JobView, compared: JobComparison, chosen: Offer) -> JobPlanned:
        """Store the comparison and return the event for the job.

        If storing fails, the event has no plan, and the job continues.
        """
        line = compared.ranked(chosen)
        if chosen.key not in compared.plan_keys:
            told = comparison_as_dict(compared.comparison, compared.analysis)
            told["choice"] = None if line is None else offer_as_dict(line)
            compared.plan_keys[chosen.key] = await self._store(view.organisation, told)
        known = line is not None and line.basis != "nothing"
        return JobPlanned(
            plan=compared.plan_keys[chosen.key],
            prediction=prediction_of(line) if line and known else None,
            code_resumes=_code_resumes(view, compared.analysis),
        )

    async def _store(self, organisation: str, told: dict[str, Any]) -> str:
        try:
            return await self._plans.put(organisation, told)
        except Exception:  # noqa: BLE001
            return ""


def _code_resumes(view: JobView, analysis: Analysis | None) -> bool | None:
    return None if analysis is None else code_resumes(view.spec, analysis)


async def _none_on_error(asked: Awaitable[T]) -> T | None:
    """Await `asked`; return None if it raises, so that a failing store does not stop the job."""
    try:
        return await asked
    except Exception:  # noqa: BLE001
        return None


def has_paid_before(view: JobView) -> bool:
    """Return whether an attempt of the job used a rented machine, so that the job had consent then."""
    return any(attempt.offer.is_rented for attempt in view.attempts)


def needs_comparison(spec: JobSpec, offers: Sequence[Offer]) -> bool:
    """Return whether comparing total costs can change the choice of an offer.

    False if there is only one offer. Also False if all offers are equal machines of the organisation, one of
    them is free, and the strategy is neither `fastest` nor `balanced`.
    """
    if len(offers) < 2:
        return False
    free = {_machine_kind(offer) for offer in offers if not offer.is_full}
    is_rented = any(offer.is_rented for offer in offers)
    return is_rented or len(free) != 1 or spec.placement.strategy in ("fastest", "balanced")


def _machine_kind(offer: Offer) -> tuple[Any, ...]:
    gpu = offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.driver
    return *gpu, offer.price_microusd_per_hour, offer.interruptible, offer.max_run_s


def work_key(view: JobView) -> object:
    """Return a key that is equal for jobs that can share a comparison."""
    spec = view.spec
    what = spec.script, spec.args, spec.command, spec.code, spec.trainer, str(spec.config or ""), spec.dataset
    needs = spec.workdir, spec.requirements, spec.setup, spec.image, spec.python
    where = spec.resources, spec.placement, spec.checkpoint, view.resumed
    return what, needs, where, spec.limits.max_cost_microusd, deadline_left_s(view, now_ms=0)


def deadline_left_s(view: JobView, now_ms: int) -> float | None:
    """Return the time available for the whole job in seconds, or None if the job has no deadline.

    The time available is the time until the deadline plus the training time that is already saved.
    """
    by_ms = deadline_ms(view)
    return None if by_ms is None else (by_ms - now_ms) / 1000 + trained_s(view, view.newest_checkpoint)


def with_prediction(view: JobView, compared: JobComparison | None, plan: Plan) -> JobView:
    """Return the job's state with the analysis, and with the prediction for the first on-demand offer of `plan`.

    The prediction is left as it is if there is one already or if `plan` has no such offer.
    """
    if compared is not None and _code_resumes(view, compared.analysis):
        view = replace(view, code_resumes=True)
    firm = (ranked.offer for ranked in plan.ranked if not ranked.rejection and not ranked.offer.interruptible)
    line = compared.ranked(offer) if compared is not None and (offer := next(firm, None)) else None
    if view.prediction is not None or line is None or line.basis == "nothing":
        return view
    return replace(view, prediction=prediction_of(line))


def prediction_of(line: RankedOffer) -> Prediction:
    wall, cost = line.bill.wall_s, line.bill.cost_microusd
    return Prediction(
        wall_s=wall.expected,
        wall_low_s=wall.low,
        wall_high_s=wall.high,
        cost_microusd=round(cost.expected),
        cost_low_microusd=round(cost.low),
        cost_high_microusd=round(cost.high),
        basis=line.basis,
        confidence=line.confidence,
    )


OffersFor = Callable[[JobView], Awaitable[list[Offer]]]
EXPLAIN_PAUSE_S = 0.05  # between two jobs, to leave time for more urgent work
EXPLAIN_BATCH = 50


def lacks_plan(view: JobView) -> bool:
    """Return whether the job was scheduled without a comparison."""
    return view.live_attempt is not None and not view.plan and view.predicted is None


class PlanExplainer:
    """Compares offers for jobs that were scheduled without a comparison, so that `anygpu explain` has a plan."""

    def __init__(self, journal: Journal, offers: OffersFor, comparer: OfferComparer, clock: Clock) -> None:
        self._journal, self._offers = journal, offers
        self._comparer, self._clock = comparer, clock

    async def run(self, views: Sequence[JobView], guard: Guard) -> list[JobView]:
        """Compare offers for these jobs and store their plans.

        Return the jobs that changed. Jobs with the same work share a comparison.
        """
        known: dict[object, JobComparison] = {}
        changed = []
        for view in views:
            key = view.organisation, work_key(view)
            if key not in known:
                candidates = [self._comparer.candidate(offer) for offer in await self._offers(view)]
                known[key] = await self._comparer.compare(view, candidates)
            changed += await self._explain(view, known[key], guard)
            await self._clock.sleep(EXPLAIN_PAUSE_S)
        return changed

    async def _explain(self, view: JobView, compared: JobComparison, guard: Guard) -> list[JobView]:
        live = view.live_attempt
        if live is None:
            return []
        told = await self._comparer.store_plan(view, compared, live.offer)
        if not told.plan and told.prediction is None:
            return []

        def explain(fresh: JobView) -> list[Event]:
            return [told] if lacks_plan(fresh) else []

        at_ms = self._clock.wall_ms()
        written = await self._journal.transact(SYSTEM, view.id, explain, at_ms=at_ms, guard=guard)
        return [written.view] if written.recorded else []
