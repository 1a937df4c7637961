"""How soon a job can use an offer that fits: now, or only after the user has done something. Pure functions."""

from enum import IntEnum

from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.consent import PAID_FLAG


class OfferAvailability(IntEnum):
    """How soon a job can use an offer: now, or what is missing before. Plans list offers with lower values first."""

    READY = 0
    FULL = 1  # no slot is free now, or too few machines for all nodes of the job
    NEEDS_CONSENT = 2  # costs money, which the job does not allow yet
    NEEDS_ACCOUNT = 3  # no backend is configured for this cloud
    COMPARISON_ONLY = 4  # anygpu has no backend for this cloud, or the price is too old to rely on


def availability(candidate: Candidate, *, needs_consent: bool, nodes: int = 1) -> OfferAvailability:
    """Return how soon a job that needs `nodes` machines can use the candidate."""
    if not candidate.configured and (candidate.has_old_price or not candidate.has_backend):
        return OfferAvailability.COMPARISON_ONLY
    if not candidate.configured:
        return OfferAvailability.NEEDS_ACCOUNT
    if needs_consent:
        return OfferAvailability.NEEDS_CONSENT
    return OfferAvailability.FULL if candidate.offer.free_or_inf < nodes else OfferAvailability.READY


def missing_step(candidate: Candidate, *, needs_consent: bool) -> str:
    """Return what the user must do before a job can use the offer; empty if nothing."""
    cloud = candidate.offer.backend
    if not candidate.configured and not candidate.has_backend:
        return f"anygpu has no backend for {cloud} yet"
    if not candidate.configured:
        return f"needs an account: anygpu backend add {cloud} --kind {cloud}"
    return f"needs {PAID_FLAG}, because it costs money" if needs_consent else ""
