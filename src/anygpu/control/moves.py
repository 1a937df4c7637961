"""Remembers when each running job is to be compared with other places again. Lost with the process, by design."""

from dataclasses import dataclass

from anygpu.control.agenda import Agenda
from anygpu.control.deadline import is_fresh
from anygpu.control.elsewhere import mode_of, moves, settled
from anygpu.control.seams import Clock
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.offers.migration import MigrationPolicy

AT_ONCE = 50  # jobs of one pass
TOGETHER_S = 30.0  # between two passes, so that jobs share what is asked of providers


@dataclass(slots=True)
class _Watched:
    """One attempt of one job."""

    attempt: int
    not_before: float
    stage: object = None  # at the last look: what changes at once how sure the job is of itself
    wants: bool = False  # to go, as soon as it has a fresh checkpoint


class Moves:
    """Jobs that are settled on a machine that costs. A new prediction, time, or a fresh checkpoint makes one due."""

    def __init__(self, clock: Clock, rules: MigrationPolicy) -> None:
        self._clock, self._rules = clock, rules
        self._watched: dict[str, _Watched] = {}
        self._agenda: Agenda[str] = Agenda()
        self._passed_at = float("-inf")

    def note(self, view: JobView) -> None:
        """Take in a job as it is now."""
        live = settled(view, self._rules)
        if live is None:
            self.forget(view.id)
            return
        watched, now = self._watch(view, live), self._clock.monotonic()
        due = self._agenda.at(view.id)
        if watched.stage != view.prediction:
            watched.stage = view.prediction
            due = min(due, max(now, self._passed_at + TOGETHER_S))
        if watched.wants and is_fresh(view, self._clock.wall_ms()):
            due = now
        self._agenda.set(view.id, max(due, watched.not_before))

    def forget(self, job_id: str) -> None:
        self._watched.pop(job_id, None)
        self._agenda.drop(job_id)

    def next_at(self) -> float:
        return self._agenda.next_at()

    def due(self) -> list[str]:
        """The jobs of one pass, those that have waited longest first."""
        now = self._clock.monotonic()
        self._passed_at = now
        return self._agenda.due(now, AT_ONCE)

    def looked(self, view: JobView, *, found: bool) -> None:
        """It was compared; a place was found, or none."""
        watched = self._watched.get(view.id)
        if watched is not None:
            self._agenda.set(view.id, self._clock.monotonic() + self._rules.check_every_s)
            watched.wants = found and mode_of(view.spec, self._rules) == "act"

    def _watch(self, view: JobView, live: AttemptView) -> _Watched:
        """One that came here by a move stays for a while, by the clock of this process."""
        watched = self._watched.get(view.id)
        if watched is None or watched.attempt != live.number:
            now = self._clock.monotonic()
            not_before = now + self._rules.min_interval_s if moves(view) else now
            watched = self._watched[view.id] = _Watched(live.number, not_before)
            self._agenda.drop(view.id)
        return watched
