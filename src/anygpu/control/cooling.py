"""Places that failed a moment ago are left alone for a while, so that the next one is tried at once."""

from collections import Counter
from collections.abc import Iterable

from anygpu.control.policy import Policy
from anygpu.control.seams import Clock
from anygpu.control.verdict import PLANNED, why
from anygpu.events.facts import Blame, Failure, Place
from anygpu.events.view import AttemptView, JobView


class Cooling:
    """Learns from attempts as they end. What a new process does not know it learns from the newest attempts."""

    def __init__(self, clock: Clock, policy: Policy) -> None:
        self._clock = clock
        self._policy = policy
        self._told: set[tuple[str, int, bool]] = set()
        self._failures: Counter[Place] = Counter()  # in a row
        self._until: dict[Place, tuple[float, str]] = {}
        self._taken_back: dict[Place, float] = {}

    def learn(self, views: Iterable[JobView]) -> None:
        """Every live job, at every pass: each attempt counts once when it starts and once when it is over."""
        newest = {(v.id, v.attempt.number, v.attempt.over): v.attempt for v in views if v.attempt is not None}
        for key in sorted(newest.keys() - self._told):
            self._take_in(newest[key])
        self._told = set(newest)

    def closed(self) -> dict[Place, str]:
        """Not to be tried now, and why."""
        now = self._clock.monotonic()
        self._until = {place: known for place, known in self._until.items() if known[0] > now}
        return {place: reason for place, (_, reason) in self._until.items()}

    def opens_at(self) -> float:
        """When the first of the closed places may be tried again."""
        return min((until for until, _ in self._until.values()), default=float("inf"))

    def avoided(self) -> frozenset[Place]:
        """Took a machine back a moment ago: others first."""
        now = self._clock.monotonic()
        self._taken_back = {place: until for place, until in self._taken_back.items() if until > now}
        return frozenset(self._taken_back)

    def _take_in(self, attempt: AttemptView) -> None:
        place = attempt.offer.place
        if attempt.claimant is not None:
            self._failures.pop(place, None)
        failure = why(attempt) if attempt.over else None
        if failure is None or failure.code in PLANNED or attempt.makes_room_for:
            return
        if failure.blame is Blame.LAUNCH:
            self._close(place, failure, times=0)
        elif failure.blame is Blame.PREEMPTION:
            self._taken_back[place] = self._clock.monotonic() + self._policy.cool_most_s
            self._close(place, failure, times=1)

    def _close(self, place: Place, failure: Failure, *, times: int) -> None:
        """Twice as long with each failure in a row, after the first `times`."""
        self._failures[place] += 1
        beyond = self._failures[place] - times
        if beyond > 0:
            pause_s = min(self._policy.cool_most_s, self._policy.cool_base_s * 2.0 ** min(beyond - 1, 16))
            where = " ".join(part for part in (place[0], place[3], place[1]) if part)
            self._until[place] = (self._clock.monotonic() + pause_s, f"{where}: {failure.message}")
