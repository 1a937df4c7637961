"""Block offers that have just failed for a while, so that other offers are tried first."""

from collections import Counter
from collections.abc import Iterable

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.verdict import failure_of
from anygpu.events.facts import PLANNED_STOPS, Blame, Failure
from anygpu.events.offers import OfferKey
from anygpu.events.view import AttemptView, JobView


class Cooldown:
    """Blocks offers for a while after failed launches and preemptions.

    After a restart, the blocked offers are derived from the newest attempt of each job.
    """

    def __init__(self, clock: Clock, policy: ControlPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._counted: set[tuple[str, int, bool]] = set()
        self._failures: Counter[OfferKey] = Counter()  # in a row
        self._until: dict[OfferKey, tuple[float, str]] = {}
        self._preempted: dict[OfferKey, float] = {}

    def observe(self, views: Iterable[JobView]) -> None:
        """Update the blocked offers from all live jobs.

        Each attempt counts once when it starts and once when it is over.
        """
        attempts = [(v.id, v.newest_attempt) for v in views if v.newest_attempt is not None]
        newest = {(job_id, each.number, each.is_over): each for job_id, each in attempts}
        for key in sorted(newest.keys() - self._counted):
            self._count(newest[key])
        self._counted = set(newest)

    def blocked_offers(self) -> dict[OfferKey, str]:
        """Return the blocked offers, each with the reason."""
        now = self._clock.monotonic()
        self._until = {place: known for place, known in self._until.items() if known[0] > now}
        return {place: reason for place, (_, reason) in self._until.items()}

    def next_at(self) -> float:
        """Return when the first blocked offer may be tried again, by the monotonic clock."""
        return min((until for until, _ in self._until.values()), default=float("inf"))

    def recently_preempted(self) -> frozenset[OfferKey]:
        """Return the offers on which an attempt was recently preempted. Other offers are preferred."""
        now = self._clock.monotonic()
        self._preempted = {place: until for place, until in self._preempted.items() if until > now}
        return frozenset(self._preempted)

    def _count(self, attempt: AttemptView) -> None:
        place = attempt.offer.key
        if attempt.claimant is not None:
            self._failures.pop(place, None)
        failure = failure_of(attempt) if attempt.is_over else None
        if failure is None or failure.code in PLANNED_STOPS or attempt.makes_room_for:
            return
        if failure.blame is Blame.LAUNCH:
            self._block(place, failure, times=0)
        elif failure.blame is Blame.PREEMPTION:
            self._preempted[place] = self._clock.monotonic() + self._policy.cooldown_max_s
            self._block(place, failure, times=1)

    def _block(self, place: OfferKey, failure: Failure, *, times: int) -> None:
        """Block an offer.

        The blocked time doubles with each consecutive failure. The first `times` failures do not block the offer.
        """
        self._failures[place] += 1
        beyond = self._failures[place] - times
        if beyond > 0:
            pause_s = min(
                self._policy.cooldown_max_s, self._policy.cooldown_base_s * 2.0 ** min(beyond - 1, 16)
            )
            where = " ".join(part for part in (place[0], place[3], place[1]) if part)
            self._until[place] = (self._clock.monotonic() + pause_s, f"{where}: {failure.message}")
