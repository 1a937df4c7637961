"""Decide whether a job may use machines that cost money. docs/explanation/money.md has the rules. Pure functions."""

from anygpu.events.offers import Offer
from anygpu.spec.jobspec import JobSpec

PAID_FLAG = "--paid"
NEEDS_CONSENT = (
    f"costs money, which the job does not allow; allow it with {PAID_FLAG} or placement.paid: true"
)
FORBIDDEN = "costs money, and the job forbids paid machines (placement.paid: false)"


def allows_paid(spec: JobSpec, *, default: bool) -> bool:
    """Return whether the job may use paid machines.

    `placement.paid` decides. If it is not set, naming a place or a budget is consent. Otherwise `default` decides.
    """
    if spec.placement.paid is not None:
        return spec.placement.paid
    return default or spec.names_place_or_budget


def consent_reason(spec: JobSpec, offer: Offer, *, default: bool) -> str:
    """Return why the job may not use a rented offer; empty if it may, or if the offer is an own machine."""
    if not offer.is_rented or allows_paid(spec, default=default):
        return ""
    return FORBIDDEN if spec.placement.paid is False else NEEDS_CONSENT
