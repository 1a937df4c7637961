"""Keeping the machine of a script that failed, so that somebody can look at it. Pure."""

from anygpu.control.verdict import why
from anygpu.events.facts import Blame, Offer
from anygpu.events.view import AttemptView, JobView


def wants_hold(view: JobView, attempt: AttemptView) -> bool:
    """Whether the machine is to be kept now: the script failed by its own fault, and somebody asked for this."""
    if not hold_s(view) or view.cancel_requested or attempt.hold_ended or attempt.released:
        return False
    if attempt.lost is not None or not attempt.over or not is_remote(attempt.offer):
        return False
    failure = why(attempt)
    return failure is not None and failure.blame is Blame.USER


def hold_s(view: JobView) -> float:
    return view.spec.placement.hold_on_failure_s or 0.0


def is_remote(offer: Offer) -> bool:
    """A machine one cannot simply walk up to: it costs, or its agent was given a lease of its own."""
    return offer.paid or offer.lease_s > 0
