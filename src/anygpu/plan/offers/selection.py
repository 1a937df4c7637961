"""Select the offer on which a job starts now, from the candidates that fit and are free. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from anygpu.events.offers import LOCAL, MICROUSD, Offer, OfferKey
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer
from anygpu.plan.offers.consent import consent_reason
from anygpu.plan.offers.fit import NOT_ALLOWED, excluded_backend_reason, unfit_reason
from anygpu.spec.jobspec import JobSpec

DOUBTFUL_SCORE = 1e30  # behind every offer whose prediction is certain


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConstraints:
    """Constraints on a job's next start beyond its spec, such as a preferred backend or cooldowns."""

    resumable: bool | None = None  # whether the job can resume; None if only its spec is known
    budget_left_microusd: int | None = None
    min_run_s: int = 0  # the budget must pay for at least this time
    preferred_backend: str = ""  # the job should move to this backend
    preferred_offer: OfferKey | None = None  # the job should move to exactly this offer
    allow_paid: bool = False  # the job may use paid offers even if its spec does not ask for them
    paid_wait_reason: str = ""  # why the job may take no paid offer now
    own_wait_reason: str = ""  # why the job may take no slot of an own machine now
    avoided: frozenset[OfferKey] = frozenset()  # offers that interrupted a machine recently: used last
    cooldowns: tuple[tuple[OfferKey, str], ...] = ()  # offers that refused a launch recently, with the reason
    outages: tuple[tuple[str, str], ...] = ()  # backends that could not be reached recently, with the reason


NO_CONSTRAINTS = JobConstraints()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """A candidate with the values that decide its position in the plan, or why it cannot be used."""

    candidate: Candidate
    preference: int  # position in the job's fallbacks
    score: float  # lower is better
    predicted_s: float = 0.0  # wall time; the shorter run wins if scores are equal
    rejection: str = ""  # why the candidate never fits
    wait_reason: str = ""  # why the candidate fits, but not now
    full: bool = False  # the job waits for a free slot
    unaffordable: bool = False  # the candidate fits, but the budget is too small
    avoided: bool = False

    @property
    def offer(self) -> Offer:
        return self.candidate.offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All candidates of a job, best first."""

    ranked: tuple[FitResult, ...]

    @property
    def choice(self) -> Offer | None:
        return next((r.offer for r in self.ranked if not r.rejection and not r.wait_reason), None)

    @property
    def beyond_budget(self) -> bool:
        """Whether there are offers that fit, but the remaining budget pays for none of them."""
        unaffordable = [r for r in self.ranked if r.unaffordable]
        return bool(unaffordable) and all(r.rejection for r in self.ranked)

    @property
    def reason(self) -> str:
        """Why nothing can start now, as text for the user."""
        wait_reasons = [r.wait_reason for r in self.ranked if r.wait_reason]
        if wait_reasons:
            return wait_reasons[0]
        relevant = [r for r in self.ranked if r.rejection not in ("", NOT_ALLOWED)] or self.ranked
        rejections = dict.fromkeys(f"{r.offer.backend}: {r.rejection}" for r in relevant if r.rejection)
        return "; ".join(rejections) or "no backend is configured"


def make_plan(
    spec: JobSpec,
    candidates: Sequence[Candidate],
    constraints: JobConstraints = NO_CONSTRAINTS,
    comparison: Comparison | None = None,
    *,
    started: bool = False,
) -> Plan:
    """Return the plan: candidates sorted by the job's list of fallbacks, then by score.

    The scores come from `comparison` if it is given, else from prices. `started` means that the job has
    already trained. Its predicted time and cost are for the whole job, so they then reject no candidate.
    """
    scores = comparison.by_offer if comparison is not None else {}
    results = (
        fit(spec, each, constraints, scores.get(each.offer.key), started=started) for each in candidates
    )
    return Plan(ranked=tuple(sorted(results, key=_sort_key)))


def fit(
    spec: JobSpec,
    candidate: Candidate,
    constraints: JobConstraints = NO_CONSTRAINTS,
    ranked: RankedOffer | None = None,
    *,
    started: bool = False,
) -> FitResult:
    """Check whether a candidate fits the job and can start now."""
    offer = candidate.offer
    unfit = _rejection(spec, offer, constraints, ranked, started=started)
    over_budget = "" if unfit else _over_budget_reason(offer, constraints, nodes=spec.resources.nodes)
    nodes = spec.resources.nodes
    full = not unfit and offer.free_or_inf < nodes
    wait_reason = _full_reason(offer, nodes) if full else _wait_reason(offer, constraints)
    return FitResult(
        candidate=candidate,
        preference=_preference(spec, offer, constraints),
        score=_price_score(offer) if ranked is None else _score(ranked),
        predicted_s=0.0 if ranked is None else ranked.bill.wall_s.expected,
        rejection=unfit or over_budget,
        wait_reason="" if unfit or over_budget else wait_reason,
        full=full,
        unaffordable=bool(over_budget),
        avoided=offer.key in constraints.avoided,
    )


def _rejection(
    spec: JobSpec, offer: Offer, constraints: JobConstraints, ranked: RankedOffer | None, *, started: bool
) -> str:
    """Return why the offer never fits. What has not answered yet may fit, so the job waits for it."""
    if not offer.answered:
        return excluded_backend_reason(spec, offer)
    return (
        unfit_reason(spec, offer, resumable=constraints.resumable)
        or _no_consent_reason(spec, offer, constraints)
        or (_predicted_rejection(ranked, started=started) if ranked is not None else "")
    )


def _full_reason(offer: Offer, nodes: int) -> str:
    """Return why the offer has too few free machines now. A job with several nodes starts on all of them or on none."""
    if nodes > 1 and offer.free:
        return f"{offer.free} of the {nodes} machines that the job needs are free"
    return offer.wait_reason or "no free slot"


def _score(ranked: RankedOffer) -> float:
    return DOUBTFUL_SCORE if ranked.rejection else ranked.score


def _predicted_rejection(ranked: RankedOffer, *, started: bool) -> str:
    """Return why the comparison rejected the candidate; empty if it did not, or if the job has started."""
    return "" if started else ranked.rejection


def _no_consent_reason(spec: JobSpec, offer: Offer, constraints: JobConstraints) -> str:
    """Return why the job may not pay for the offer; empty if it may.

    A user who moves a job to a backend thereby allows its machines.
    """
    is_requested = offer.backend == constraints.preferred_backend
    return consent_reason(spec, offer, default=constraints.allow_paid or is_requested)


def _wait_reason(offer: Offer, constraints: JobConstraints) -> str:
    if offer.is_paid and constraints.paid_wait_reason:
        return constraints.paid_wait_reason
    if constraints.own_wait_reason and offer.is_shared_by_jobs:
        return constraints.own_wait_reason
    outage = next((reason for name, reason in constraints.outages if name == offer.backend), "")
    return outage or next((reason for key, reason in constraints.cooldowns if key == offer.key), "")


def _over_budget_reason(offer: Offer, constraints: JobConstraints, *, nodes: int) -> str:
    if constraints.budget_left_microusd is None or not offer.is_paid:
        return ""
    least = nodes * offer.billing.cost_microusd(offer.price_microusd_per_hour, constraints.min_run_s)
    if least <= constraints.budget_left_microusd:
        return ""
    return f"costs at least ${least / MICROUSD:.4f}, which is more than the remaining budget"


def _preference(spec: JobSpec, offer: Offer, constraints: JobConstraints) -> int:
    """Return the position of the offer's backend in the job's fallbacks; lower is better.

    The position is negative for an offer to which the job should move.
    """
    if offer.key == constraints.preferred_offer:
        return -2
    if constraints.preferred_backend and offer.backend == constraints.preferred_backend:
        return -1
    order = [*spec.placement.fallbacks]
    return order.index(offer.backend) if offer.backend in order else len(order)


def _price_score(offer: Offer) -> float:
    return offer.price_microusd_per_hour + offer.expected_wait_s


def _sort_key(result: FitResult) -> tuple[bool, bool, bool, int, float, float, bool, str, str]:
    """Return the key by which offers are ordered. Of equal offers, the server's own machine is first.

    There a job can run in place, without a copy of its files.
    """
    offer = result.offer
    state = bool(result.rejection), bool(result.wait_reason), result.avoided
    rank = result.preference, result.score, result.predicted_s
    return *state, *rank, offer.backend != LOCAL, offer.backend, offer.name
