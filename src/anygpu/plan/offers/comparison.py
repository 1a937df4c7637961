"""Rank all candidates for a job, and convert the result to JSON data. Pure functions."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import inf
from typing import Any, NamedTuple, overload

from anygpu.events.offers import Offer, OfferKey
from anygpu.plan.analyse.findings import Analysis, SummaryRow, summary
from anygpu.plan.hardware.networks import find_network
from anygpu.plan.offers.bill import Bill, RunTime, Span, out_of_pocket_cost
from anygpu.plan.offers.candidates import Candidate, CandidateSet
from anygpu.plan.offers.estimate import DurationLookup, Estimator
from anygpu.plan.offers.ranking import Ranking, Rejection, run_cost_of
from anygpu.plan.offers.unknown_names import unknown_names
from anygpu.plan.offers.wording import cons, describe_duration, pros
from anygpu.spec.jobspec import JobSpec

EXAMPLES_PER_REASON = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOffer:
    """A candidate with its estimated bill, and its score (lower is better) or why it was rejected."""

    candidate: Candidate
    bill: Bill
    score: float = inf
    rejection: str = ""
    doubt: str = ""  # a problem that the analysis shows and that does not reject the offer
    confidence: str = "low"
    basis: str = "nothing"  # source of the predicted time: said | history | code | nothing
    idle_gpus: bool = False
    nodes_reason: str = ""  # why fewer nodes would be better
    needs_consent: bool = False  # costs money, which the job does not allow yet
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()

    @property
    def out_of_pocket(self) -> Span:
        """The part of the cost in micro-dollars that the remaining credit does not cover."""
        cost, credit = self.bill.cost_microusd, self.candidate.credit_microusd
        expected, low, high = (
            out_of_pocket_cost(each, credit) for each in (cost.expected, cost.low, cost.high)
        )
        return Span(expected=expected, low=low, high=high)


TopIndices = Callable[[int | None], Sequence[int]]  # the first n, or all for None


class RankedOffers(Sequence[RankedOffer]):
    """A sequence of ranked offers. Each `RankedOffer` object is created when it is accessed."""

    def __init__(self, count: int, indices: TopIndices, describe: Callable[[int], RankedOffer]) -> None:
        self._count, self._indices, self._describe = count, indices, describe

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, position: int) -> RankedOffer: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[RankedOffer, ...]: ...
    def __getitem__(self, position: int | slice) -> RankedOffer | tuple[RankedOffer, ...]:
        if isinstance(position, slice):
            return tuple(map(self._describe, self._indices(_slice_end(position))[position]))
        return self._describe(self._indices(None)[position])

    def __iter__(self) -> Iterator[RankedOffer]:
        return map(self._describe, self._indices(None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RankedOffers) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(self[:])


class RejectionSummary(NamedTuple):
    """A reason for rejection, the number of candidates it applies to, and examples."""

    reason: str
    offer_count: int
    examples: tuple[Candidate, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All candidates for a job: those that fit, best first, and the rejected ones."""

    strategy: str
    ranked: RankedOffers
    rejected: RankedOffers
    rejections: Sequence[RejectionSummary]  # most frequent reason first
    best_per_machine: RankedOffers  # one per GPU kind, GPU count and market
    best_per_provider: RankedOffers  # the same for each backend
    unknown: tuple[str, ...] = ()  # messages about names in the placement that no candidate has

    @cached_property
    def by_offer(self) -> Mapping[OfferKey, RankedOffer]:
        """All candidates, found by the identity (key) of their offer.

        This builds a `RankedOffer` for every candidate, which is slow for a large comparison.
        """
        return {each.candidate.offer.key: each for each in (*self.rejected, *self.ranked)}

    @property
    def choice(self) -> RankedOffer | None:
        return self.best_per_machine[0] if len(self.best_per_machine) else None

    def shortlist(self, limit: int = 8) -> tuple[RankedOffer, ...]:
        """Return the best offers of different machines, at most `limit`.

        Each GPU model and count appears once on demand and once as spot, in its best region.
        """
        return self.best_per_machine[:limit]


def rank(
    spec: JobSpec,
    candidates: Sequence[Candidate],
    analysis: Analysis | None = None,
    *,
    deadline_s: float | None = None,
    duration: DurationLookup | None = None,
    rough_duration: Span | None = None,
    allow_paid: bool = True,
    resumable: bool | None = None,
    backends: Collection[str] = (),
) -> Comparison:
    """Rank the candidates that fit a job by its strategy, and say why the others do not fit.

    `deadline_s` is in seconds from now. `duration` predicts the training time on an offer from past runs, and
    `rough_duration` is the time on offers about which nothing else is known.
    `allow_paid` is the answer for jobs whose spec does not say whether they may use paid machines.
    `resumable` says whether the job can resume; None means that the spec and the analysis decide.
    `backends` limits `best_per_machine` to offers of these backends; empty means all.
    To rank the same candidates for many jobs, pass a `CandidateSet`, which is faster.
    """
    estimator = Estimator(
        spec=spec,
        analysis=analysis,
        deadline_s=deadline_s,
        past_duration=duration,
        rough_duration=rough_duration,
        allow_paid=allow_paid,
        resumable=resumable,
    )
    candidate_set = candidates if isinstance(candidates, CandidateSet) else CandidateSet.of(candidates)
    ranking = Ranking(estimator, candidate_set)
    writer = _OfferWriter(estimator, candidate_set, ranking)
    best, best_by_provider = ranking.best_per_machine(backends), ranking.best_per_provider()
    return Comparison(
        strategy=ranking.strategy,
        ranked=RankedOffers(len(ranking), ranking.top, writer.fitting_offer),
        rejected=RankedOffers(
            len(candidate_set) - len(ranking), lambda _: ranking.rejected_indices, writer.rejected_offer
        ),
        rejections=_summarise_rejections(ranking.rejections, candidate_set),
        best_per_machine=RankedOffers(len(best), lambda _: best, writer.fitting_offer),
        best_per_provider=RankedOffers(
            len(best_by_provider), lambda _: best_by_provider, writer.fitting_offer
        ),
        unknown=unknown_names(spec, candidate_set),
    )


def _slice_end(position: slice) -> int | None:
    """Return how many items from the start of a sequence a slice needs; None if it may need all of them."""
    is_bounded = position.stop is not None and position.stop >= 0 and (position.start or 0) >= 0
    return position.stop if is_bounded else None


def _summarise_rejections(
    rejections: Iterable[Rejection], candidates: CandidateSet
) -> tuple[RejectionSummary, ...]:
    counts: dict[str, int] = {}
    firsts: dict[str, list[int]] = {}
    for reason, indices in rejections:
        counts[reason] = counts.get(reason, 0) + len(indices)
        firsts.setdefault(reason, []).extend(indices[:EXAMPLES_PER_REASON])
    return tuple(
        RejectionSummary(
            reason, count, tuple(candidates[index] for index in sorted(firsts[reason])[:EXAMPLES_PER_REASON])
        )
        for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    )


@dataclass(frozen=True, slots=True)
class _OfferWriter:
    """Builds the `RankedOffer` of a candidate from the candidate's index."""

    estimator: Estimator
    candidates: CandidateSet
    ranking: Ranking

    def fitting_offer(self, index: int) -> RankedOffer:
        candidate = self.candidates[index]
        prediction = self.estimator.predict_duration(candidate.offer)
        bill = self.estimator.bill(candidate, prediction.training_s)
        best = self.ranking.best
        idle = self.estimator.leaves_gpus_idle(candidate.offer)
        nodes_reason = self.estimator.nodes_reason(candidate.offer)
        needs_consent, doubt = self.estimator.needs_consent(candidate), self.estimator.doubt(candidate, bill)
        return RankedOffer(
            candidate=candidate,
            bill=bill,
            score=self.ranking.score(
                candidate, bill.wall_s.expected, _exact_cost(candidate, bill), is_doubtful=bool(doubt)
            ),
            confidence=self.estimator.confidence(candidate, prediction),
            basis=prediction.basis,
            idle_gpus=idle,
            nodes_reason=nodes_reason,
            needs_consent=needs_consent,
            doubt=doubt,
            pros=pros(candidate, bill, best),
            cons=cons(
                candidate,
                bill,
                best,
                idle_gpus=idle,
                needs_consent=needs_consent,
                doubt=doubt,
                nodes_reason=nodes_reason,
            ),
        )

    def rejected_offer(self, index: int) -> RankedOffer:
        candidate = self.candidates[index]
        prediction = self.estimator.predict_duration(candidate.offer)
        bill = self.estimator.bill(candidate, prediction.training_s)
        return RankedOffer(
            candidate=candidate,
            bill=bill,
            rejection=self.estimator.rejection_reason(candidate, bill),
            confidence=self.estimator.confidence(candidate, prediction),
            basis=prediction.basis,
            idle_gpus=self.estimator.leaves_gpus_idle(candidate.offer),
        )


def _exact_cost(candidate: Candidate, bill: Bill) -> float:
    run_time = RunTime(wall_s=bill.wall_s.expected, runs=bill.runs, nodes=bill.nodes)
    run_cost = run_cost_of(candidate, run_time, bill.egress_microusd)
    return run_cost.cost(candidate.offer.price_microusd_per_hour)


MAX_OFFERS = 200
SHORTLIST = 8


def comparison_as_dict(
    comparison: Comparison,
    analysis: Analysis | None,
    *,
    limit: int | None = MAX_OFFERS,
    short: int = SHORTLIST,
    outside: Sequence[RankedOffer] = (),
) -> dict[str, Any]:
    """Return the comparison as JSON data: at most `limit` offers, and the best `short` different machines.

    `outside` are offers that only the budget or the deadline excludes.
    """
    listed = comparison.ranked[:limit]
    return {
        "strategy": comparison.strategy,
        "choice": offer_as_dict(comparison.choice) if comparison.choice else None,
        "short": [offer_as_dict(ranked) for ranked in comparison.shortlist(short or SHORTLIST)],
        "offers": [offer_as_dict(ranked) for ranked in listed],
        "more_offers": len(comparison.ranked) - len(listed),
        "outside": [offer_as_dict(ranked) for ranked in outside],
        "rejected": _rejections(comparison.rejections),
        "unknown": list(comparison.unknown),
        "workload": _workload_rows(analysis, comparison.choice),
        "lints": _lint_rows(analysis),
    }


def offer_as_dict(ranked: RankedOffer) -> dict[str, Any]:
    bill, offer = ranked.bill, ranked.candidate.offer
    return {
        **offer.place_fields(),
        "configured": ranked.candidate.configured,
        "needs_consent": ranked.needs_consent,
        "has_backend": ranked.candidate.has_backend,
        "price_date": ranked.candidate.price_date,
        "doubt": ranked.doubt,
        "score": ranked.score,
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "nodes": bill.nodes,
        "total_price_microusd_per_hour": offer.price_microusd_per_hour * bill.nodes,
        "interconnect": _interconnect(offer, bill.nodes),
        "nodes_reason": ranked.nodes_reason,
        "seconds": _span(bill.wall_s),
        "cost_microusd": {name: round(value) for name, value in _span(bill.cost_microusd).items()},
        "out_of_pocket_microusd": {name: round(value) for name, value in _span(ranked.out_of_pocket).items()},
        "credit_microusd": ranked.candidate.credit_microusd,
        "runs": bill.runs,
        "max_run_s": offer.max_run_s,
        "setup_s": round(bill.setup_s),
        "transfer_s": round(bill.transfer_s),
        "interruptions_s": round(bill.interruptions_s),
        "checkpoint_every_s": round(bill.checkpoint_every_s) if offer.interruptible else None,
        "confidence": ranked.confidence,
        "basis": ranked.basis,
        "free": offer.free,
        "wait": offer.wait_reason,
        "pros": list(ranked.pros),
        "cons": list(ranked.cons),
    }


def _interconnect(offer: Offer, nodes: int) -> str:
    """Return the network between the nodes, with its speed; empty for one node."""
    return find_network(offer.name, offer.interconnect).describe() if nodes > 1 else ""


def _rejections(rejections: Sequence[RejectionSummary]) -> list[dict[str, Any]]:
    return [
        {
            "reason": each.reason,
            "offers": each.offer_count,
            "examples": [candidate.offer.place_fields() for candidate in each.examples],
        }
        for each in rejections
    ]


def _workload_rows(analysis: Analysis | None, choice: RankedOffer | None) -> list[dict[str, Any]]:
    """Return the values that were found about the job. A time from past runs replaces the one from the code."""
    rows = [*(summary(analysis) if analysis is not None else ())]
    if choice is not None and choice.basis == "history":
        rows = [row for row in rows if row.what.partition(" ")[0] != "time"] + [_past_time_row(choice)]
    return [
        {
            "what": row.what,
            "value": row.value,
            "sure": row.sure,
            "where": row.where,
            "because": row.because,
            "file": row.file,
            "line": row.line,
        }
        for row in rows
    ]


def _past_time_row(choice: RankedOffer) -> SummaryRow:
    time = choice.bill.wall_s
    expected, low, high = (describe_duration(each) for each in (time.expected, time.low, time.high))
    return SummaryRow("time", f"{expected} ({low} to {high})", choice.confidence, "past runs")


def _lint_rows(analysis: Analysis | None) -> list[dict[str, Any]]:
    return [
        {
            "code": lint.code,
            "says": lint.message,
            "do": lint.advice,
            "file": lint.file,
            "line": lint.line,
            "severity": lint.severity,
            "column": lint.column,
            "end_column": lint.end_column,
            "fix": asdict(lint.fix) if lint.fix is not None else None,
        }
        for lint in (analysis.lints if analysis is not None else ())
    ]


def _span(span: Span) -> dict[str, float]:
    return {"expected": span.expected, "low": span.low, "high": span.high}
