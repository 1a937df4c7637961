"""Every place a job could run, with its bill: ranked by what was asked for, the rest with the reason it is out.

Pure: the same question gets the same answer. A place is an offer with what its cloud's terms add to it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, overload

from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.bill import Bill, Span, Stretch
from anygpu.plan.credit import from_pocket
from anygpu.plan.places import Place, Places
from anygpu.plan.question import Duration, Question
from anygpu.plan.ranking import Ranking
from anygpu.plan.sieve import Out, stay
from anygpu.plan.words import cons, pros
from anygpu.spec.model import JobSpec

__all__ = ["Line", "Lines", "Place", "Places", "Planned", "planned"]

EXAMPLES = 3  # of each reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A place in the plan. `score`: lower is better; `rejected`: why it is not to be chosen."""

    place: Place
    bill: Bill
    score: float = inf
    rejected: str = ""
    certain: bool = False  # it is out by a fact, however doubtful the prediction is
    confidence: str = "low"
    basis: str = "nothing"  # what its time is predicted from: said | history | code | nothing
    idle_gpus: bool = False
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()

    @property
    def from_pocket(self) -> Span:
        """What of the cost is money, after the credit there."""
        cost, credit = self.bill.cost_microusd, self.place.credit_microusd
        expected, low, high = (from_pocket(each, credit) for each in (cost.expected, cost.low, cost.high))
        return Span(expected=expected, low=low, high=high)


Numbers = Callable[[int | None], Sequence[int]]  # the first so many, or all


class Lines(Sequence[Line]):
    """Lines of a plan, each written out only when it is looked at."""

    def __init__(self, count: int, numbers: Numbers, line: Callable[[int], Line]) -> None:
        self._count, self._numbers, self._line = count, numbers, line

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Line: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, at: int | slice) -> Line | tuple[Line, ...]:
        if isinstance(at, slice):
            return tuple(map(self._line, self._numbers(_most(at))[at]))
        return self._line(self._numbers(None)[at])

    def __iter__(self) -> Iterator[Line]:
        return map(self._line, self._numbers(None))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lines) and self[:] == other[:]

    def __hash__(self) -> int:
        return hash(self[:])


class Reason(NamedTuple):
    """Why places are out, how many, and the first of them."""

    reason: str
    offers: int
    examples: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Best first; the rejected apart, and the same by reason, commonest first."""

    strategy: str
    lines: Lines
    rejected: Lines
    reasons: Sequence[Reason]
    best_of_each: Lines  # number of each GPU in each market

    @property
    def choice(self) -> Line | None:
        return self.best_of_each[0] if len(self.best_of_each) else None

    def short(self, most: int = 8) -> tuple[Line, ...]:
        """Not fifty near-identical rows: the best of each kind of machine."""
        return self.best_of_each[:most]


def planned(
    spec: JobSpec,
    read: Analysis | None,
    places: Sequence[Place],
    *,
    deadline_s: float | None = None,
    duration: Duration | None = None,
) -> Planned:
    """`deadline_s`: seconds from now until it has to be done. Places that are planned on again: see `Places`."""
    question = Question(spec=spec, read=read, deadline_s=deadline_s, duration=duration)
    known = places if isinstance(places, Places) else Places.of(places)
    ranking = Ranking(question, known)
    writer = _Writer(question, known, ranking)
    best = ranking.best_of_each
    return Planned(
        strategy=ranking.strategy,
        lines=Lines(len(ranking), ranking.first, writer.fitting),
        rejected=Lines(len(known) - len(ranking), lambda _: ranking.others, writer.rejected),
        reasons=_reasons(ranking.out, known),
        best_of_each=Lines(len(best), lambda _: best, writer.fitting),
    )


def _most(at: slice) -> int | None:
    """How many it takes from the beginning; None when that is not said."""
    return at.stop if at.stop is not None and at.stop >= 0 and (at.start or 0) >= 0 else None


def _reasons(out: Iterable[Out], places: Places) -> tuple[Reason, ...]:
    counts: dict[str, int] = {}
    firsts: dict[str, list[int]] = {}
    for reason, numbers in out:
        counts[reason] = counts.get(reason, 0) + len(numbers)
        firsts.setdefault(reason, []).extend(numbers[:EXAMPLES])
    return tuple(
        Reason(reason, count, tuple(places[number] for number in sorted(firsts[reason])[:EXAMPLES]))
        for reason, count in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    )


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes out the line of a place from its number."""

    question: Question
    places: Places
    ranking: Ranking

    def fitting(self, number: int) -> Line:
        place = self.places[number]
        prediction = self.question.predicted(place.offer)
        found = self.question.bill(place, prediction.training_s)
        best = self.ranking.best
        idle = self.question.leaves_idle(place.offer)
        return Line(
            place=place,
            bill=found,
            score=self.ranking.score(place, found.wall_s.expected, _exact_cost(place, found)),
            confidence=self.question.confidence(place, prediction),
            basis=prediction.basis,
            idle_gpus=idle,
            pros=pros(place, found, best),
            cons=cons(place, found, best, idle_gpus=idle),
        )

    def rejected(self, number: int) -> Line:
        place = self.places[number]
        prediction = self.question.predicted(place.offer)
        found = self.question.bill(place, prediction.training_s)
        return Line(
            place=place,
            bill=found,
            rejected=self.question.why_not(place, found),
            certain=bool(self.question.misfit(place.offer)),
            confidence=self.question.confidence(place, prediction),
            basis=prediction.basis,
            idle_gpus=self.question.leaves_idle(place.offer),
        )


def _exact_cost(place: Place, found: Bill) -> float:
    here = stay(place, Stretch(wall_s=found.wall_s.expected, runs=found.runs), found.egress_microusd)
    return here.cost(place.offer.price_microusd_per_hour)
