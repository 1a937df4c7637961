"""Block offers and backends that have just failed for a while, so that others are tried first."""

from collections import Counter
from collections.abc import Iterable
from typing import Generic, TypeVar

from anygpu.control.clock import Clock
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.verdict import failure_of, is_outage
from anygpu.events.facts import PLANNED_STOPS, Blame
from anygpu.events.offers import OfferKey
from anygpu.events.view import AttemptView, JobView

Place = TypeVar("Place")


class Pauses(Generic[Place]):
    """Places that are blocked, each for a time that doubles with each consecutive failure."""

    def __init__(self, clock: Clock, base_s: float, max_s: float) -> None:
        self._clock = clock
        self._base_s = base_s
        self._max_s = max_s
        self._failures: Counter[Place] = Counter()  # in a row
        self._until: dict[Place, tuple[float, str]] = {}

    def add_failure(self, place: Place, reason: str, *, tolerated: int = 0) -> float:
        """Block a place, and return for how long. The first `tolerated` failures in a row do not block it."""
        self._failures[place] += 1
        beyond = self._failures[place] - tolerated
        if beyond <= 0:
            return 0.0
        pause_s = min(self._max_s, self._base_s * 2.0 ** min(beyond - 1, 16))
        self.block(place, pause_s, reason)
        return pause_s

    def block(self, place: Place, pause_s: float, reason: str) -> None:
        self._until[place] = (self._clock.monotonic() + pause_s, reason)

    def unblock(self, place: Place) -> None:
        self._until.pop(place, None)

    def forget_failures(self, place: Place) -> None:
        """Count the next failure as the first one. A place that is blocked stays blocked."""
        self._failures.pop(place, None)

    def blocked(self) -> dict[Place, str]:
        """Return the blocked places, each with the reason."""
        now = self._clock.monotonic()
        self._until = {place: known for place, known in self._until.items() if known[0] > now}
        return {place: reason for place, (_, reason) in self._until.items()}

    def next_at(self) -> float:
        """Return when the first blocked place may be tried again, by the monotonic clock."""
        return min((until for until, _ in self._until.values()), default=float("inf"))


class Cooldown:
    """Blocks offers for a while after failed launches and preemptions.

    After a launch that did not reach its backend, all offers of the backend are blocked. After a restart, what is
    blocked is derived from the newest attempt of each job.
    """

    def __init__(self, clock: Clock, policy: ControlPolicy) -> None:
        self._clock = clock
        self._policy = policy
        self._counted: set[tuple[str, int, int]] = set()
        base_s, max_s = policy.cooldown_base_s, policy.cooldown_max_s
        self._offers = Pauses[OfferKey](clock, base_s, max_s)
        self._backends = Pauses[str](clock, base_s / OFFER_PAUSES, max_s / OFFER_PAUSES)
        self._preempted: dict[OfferKey, float] = {}

    def observe(self, views: Iterable[JobView]) -> None:
        """Update what is blocked from all live jobs.

        Each attempt counts once when it starts, once when it is launched, and once when it is over.
        """
        attempts = [(v, v.newest_attempt) for v in views if v.newest_attempt is not None]
        newest = {(view.id, each.number, _stage(each)): (view, each) for view, each in attempts}
        for key in sorted(newest.keys() - self._counted):
            self._count(*newest[key])
        self._counted = set(newest)

    def blocked_offers(self) -> dict[OfferKey, str]:
        """Return the blocked offers, each with the reason."""
        return self._offers.blocked()

    def blocked_backends(self) -> dict[str, str]:
        """Return the backends none of whose offers may be used, each with the reason."""
        return self._backends.blocked()

    def next_at(self) -> float:
        """Return when the first blocked offer or backend may be tried again, by the monotonic clock."""
        return min(self._offers.next_at(), self._backends.next_at())

    def recently_preempted(self) -> frozenset[OfferKey]:
        """Return the offers on which an attempt was recently preempted. Other offers are preferred."""
        now = self._clock.monotonic()
        self._preempted = {place: until for place, until in self._preempted.items() if until > now}
        return frozenset(self._preempted)

    def _count(self, view: JobView, attempt: AttemptView) -> None:
        place = attempt.offer.key
        if attempt.claimant is not None:
            self._offers.forget_failures(place)
        if _stage(attempt) == LAUNCHED:
            self._backends.forget_failures(attempt.offer.backend)
            self._backends.unblock(attempt.offer.backend)
        failure = failure_of(view, attempt) if attempt.is_over else None
        if failure is None or failure.code in PLANNED_STOPS or attempt.makes_room_for:
            return
        if is_outage(attempt):
            self._add_outage(attempt.offer.backend, place, failure.message)
        elif failure.blame is Blame.LAUNCH:
            self._offers.add_failure(place, _reason(place, failure.message))
        elif failure.blame is Blame.PREEMPTION:
            self._preempted[place] = self._clock.monotonic() + self._policy.cooldown_max_s
            self._offers.add_failure(place, _reason(place, failure.message), tolerated=1)

    def _add_outage(self, backend: str, place: OfferKey, message: str) -> None:
        """Block all offers of a backend, and the offer that was used for longer.

        If a backend has several machines, perhaps only that one cannot be reached. Launches that began before the
        backend was blocked fail for the same reason, and do not make the pause longer.
        """
        if backend in self._backends.blocked():
            return
        pause_s = self._backends.add_failure(backend, f"{backend}: {message}")
        self._offers.block(place, OFFER_PAUSES * pause_s, _reason(place, message))


OFFER_PAUSES = 2.0  # pause of an offer whose backend could not be reached, as a multiple of the backend's
STARTED, LAUNCHED, OVER = range(3)


def _stage(attempt: AttemptView) -> int:
    if attempt.is_over:
        return OVER
    return STARTED if attempt.handle is None else LAUNCHED


def _reason(place: OfferKey, message: str) -> str:
    where = " ".join(part for part in (place[0], place[3], place[1]) if part)
    return f"{where}: {message}"
