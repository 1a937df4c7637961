"""Compares the places that would take a job, by the time and money each would need for it, and keeps the comparison."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from anygpu.control.remaining import deadline_ms, trained_s
from anygpu.control.seams import Clock
from anygpu.events.facts import Offer, Place, Prediction
from anygpu.events.types import JobPlanned
from anygpu.events.view import JobView
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.offers import comparison as planner
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer, comparison_as_dict, offer_as_dict
from anygpu.plan.offers.fit import OfferScore, Plan, has_resume_path
from anygpu.plan.predict.history import PastRun, past_durations
from anygpu.spec.model import JobSpec
from anygpu.store.plans import Plans

ReadsWork = Callable[[JobSpec, str], Awaitable[Analysis | None]]  # an organisation's job
Remembers = Callable[[JobSpec, str], Awaitable[Sequence[PastRun]]]  # the organisation's runs of the same work
ConditionsAt = Callable[[str], "Conditions"]  # by backend
T = TypeVar("T")
RENTED_BOOT_S, OWN_BOOT_S = 60.0, 0.5
LAST = 1e30  # behind everything that is not in doubt


class Conditions(NamedTuple):
    """What holds where a backend rents, beside the price of an offer."""

    credit_microusd: int = 0  # left to spend there before it costs money
    egress_microusd_per_gib: int = 0


def none_special(backend: str) -> Conditions:
    """Where there is nothing but the price."""
    return Conditions()


async def nothing_read(spec: JobSpec, organisation: str) -> Analysis | None:
    """Where nobody reads code."""
    return None


async def nothing_remembered(spec: JobSpec, organisation: str) -> Sequence[PastRun]:
    """Where no runs are kept."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All places with their bills, and what was read of the job."""

    planned: Comparison
    read: Analysis | None
    lines: Mapping[Place, RankedOffer]  # all of them, written out once: many jobs may share the comparison
    files: dict[Place, str] = field(default_factory=dict)  # where it is kept, by what was chosen

    def worth(self, *, begun: bool = False) -> Mapping[Place, OfferScore]:
        """For the router. A doubtful prediction puts a place last; only a sure one keeps the job away from it.

        `begun`: it has trained already, and the prediction is of the whole: the places are only put in order.
        """
        return {place: _worth(line, begun=begun) for place, line in self.lines.items()}


class Comparing:
    """What is read of a job is read once; what it is compared with changes all the time."""

    def __init__(
        self,
        read: ReadsWork,
        plans: Plans,
        clock: Clock,
        remembers: Remembers = nothing_remembered,
        conditions_at: ConditionsAt = none_special,
    ) -> None:
        self._read, self._plans, self._clock = read, plans, clock
        self._remembers, self.conditions_at = remembers, conditions_at

    async def compare(self, view: JobView, offers: Sequence[Offer]) -> Compared:
        """Never fails: what cannot be read of the job is not known of it."""
        read = await self.read(view)
        past = await _or_none(self._remembers(view.spec, view.organisation))
        duration = past_durations(view.spec, read, past or ())
        places = [as_place(offer, self.conditions_at(offer.backend)) for offer in offers]
        left_s = deadline_left_s(view, self._clock.wall_ms())
        planned = planner.rank(view.spec, read, places, deadline_s=left_s, duration=duration)
        if left_s is not None and not planned.ranked:  # better late than never
            planned = planner.rank(view.spec, read, places, duration=duration)
        lines = {line.candidate.offer.place: line for line in (*planned.rejected, *planned.ranked)}
        return Compared(planned=planned, read=read, lines=lines)

    async def read(self, view: JobView) -> Analysis | None:
        return await _or_none(self._read(view.spec, view.organisation))

    async def kept(self, view: JobView, compared: Compared, chosen: Offer) -> JobPlanned:
        """The fact to write. Without its file, when that cannot be stored now: a plan is not worth waiting for."""
        line = compared.lines.get(chosen.place)
        if chosen.place not in compared.files:
            told = comparison_as_dict(compared.planned, compared.read)
            told["choice"] = None if line is None else offer_as_dict(line)
            compared.files[chosen.place] = await self._filed(view.organisation, told)
        known = line is not None and line.basis != "nothing"
        return JobPlanned(
            plan=compared.files[chosen.place], prediction=prediction(line) if line and known else None
        )

    async def _filed(self, organisation: str, told: dict[str, Any]) -> str:
        try:
            return await self._plans.keep(organisation, told)
        except Exception:  # noqa: BLE001
            return ""


async def _or_none(asked: Awaitable[T]) -> T | None:
    """A store that cannot be read now must not keep the job from running."""
    try:
        return await asked
    except Exception:  # noqa: BLE001
        return None


def is_a_choice(spec: JobSpec, offers: Sequence[Offer]) -> bool:
    """Whether comparing can change where the job goes: a free machine of one's own is taken as it is."""
    if len(offers) < 2:
        return False
    quick = spec.placement.strategy in ("fastest", "balanced")
    return quick or not any(not offer.paid and offer.free != 0 for offer in offers)


def work_key(view: JobView) -> object:
    """The same for jobs between which a comparison makes no difference."""
    spec = view.spec
    what = spec.script, spec.args, spec.command, spec.code, spec.trainer, str(spec.config or ""), spec.dataset
    needs = spec.workdir and spec.workdir.archive, spec.requirements, spec.setup, spec.image, spec.python
    where = spec.resources, spec.placement, has_resume_path(spec)
    return what, needs, where, spec.limits.max_cost_microusd, deadline_left_s(view, now_ms=0)


def as_place(offer: Offer, conditions: Conditions) -> Candidate:
    usual_s = RENTED_BOOT_S if offer.paid and offer.free is None else OWN_BOOT_S
    boot_s = offer.expected_wait_s or usual_s
    return Candidate(offer=offer, boot_s=boot_s, configured=True, **conditions._asdict())


def deadline_left_s(view: JobView, now_ms: int) -> float | None:
    """The time there is for the whole job: until the deadline, and what its newest checkpoint holds already."""
    by_ms = deadline_ms(view)
    return None if by_ms is None else (by_ms - now_ms) / 1000 + trained_s(view, view.newest_checkpoint)


def foretold(view: JobView, compared: Compared | None, plan: Plan) -> JobView:
    """The job with what the comparison says of its first firm place, until something better is known."""
    firm = (ranked.offer for ranked in plan.ranked if not ranked.rejection and not ranked.offer.interruptible)
    line = compared.lines.get(offer.place) if compared is not None and (offer := next(firm, None)) else None
    if view.prediction is not None or line is None or line.basis == "nothing":
        return view
    return replace(view, prediction=prediction(line))


def prediction(line: RankedOffer) -> Prediction:
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


def _worth(line: RankedOffer, *, begun: bool) -> OfferScore:
    if not line.rejection:
        return OfferScore(score=line.score)
    doubtful = line.confidence == "low" and not line.certain
    return OfferScore(score=LAST, rejection="" if begun or doubtful else line.rejection)
