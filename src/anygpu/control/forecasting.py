"""Watches jobs that run until their first steps tell how long they take, and writes that down; then looks seldom.

Within the rounds there are anyway, never in the way of a report: a row of each attempt that is due, and some points.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from anygpu.control.agenda import Agenda
from anygpu.control.forecast import has_moved, prediction
from anygpu.control.pace import reported
from anygpu.control.seams import Clock
from anygpu.errors import NotFound
from anygpu.events.types import Event, JobPlanned
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.predict.first_steps import CONFIDENT_STEPS, StepTimes
from anygpu.store.evidence import AttemptRow, Evidence
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

Key = tuple[str, int]
FIRST_LOOK_S = 1.0
MOST_PAUSE_S = 600.0
LONGER = 1.5  # each pause than the one before it
MOST_TOLD = 6  # predictions of one attempt, however it goes
WINDOW = 1_000  # points
AT_ONCE = 200  # attempts of one pass


@dataclass(slots=True)
class _Watched:
    pause_s: float = FIRST_LOOK_S
    told: int = 0


class Forecasts:
    """Forgets with its process; what was told last is in the journal."""

    def __init__(self, journal: Journal, evidence: Evidence, clock: Clock) -> None:
        self._journal, self._evidence, self._clock = journal, evidence, clock
        self._watched: dict[Key, _Watched] = {}
        self._agenda: Agenda[Key] = Agenda()

    def note(self, view: JobView) -> None:
        """Take in a job that was looked at: an attempt that trains is watched until it is over."""
        live = view.live_attempt
        for key in [(view.id, attempt.number) for attempt in view.attempts if attempt is not live]:
            self._watched.pop(key, None)
            self._agenda.drop(key)
        if live is not None and live.training_at_ms is not None and not live.stop_reason:
            key = view.id, live.number
            if key not in self._watched:
                self._watched[key] = _Watched()
                self._agenda.set(key, self._clock.monotonic() + FIRST_LOOK_S)

    def next_at(self) -> float:
        return self._agenda.next_at()

    async def run(self, guard: Guard) -> None:
        now = self._clock.monotonic()
        due = self._agenda.due(now, AT_ONCE)
        for key in due:
            self._later(key, now)
        for key, row in (await self._evidence.attempts(due)).items():
            if _worth_a_look(row.progress):
                await self._look(key, row, guard)

    def _later(self, key: Key, now: float) -> None:
        watched = self._watched[key]
        self._agenda.set(key, now + watched.pause_s)
        watched.pause_s = min(MOST_PAUSE_S, watched.pause_s * LONGER)

    async def _look(self, key: Key, row: AttemptRow, guard: Guard) -> None:
        job_id, number = key
        after = max(0, row.marks.metric_points - WINDOW)
        points, _ = await self._evidence.points(job_id, number, after=after, limit=WINDOW)
        run = reported(points, row.progress)
        if run is not None and await self._tell(key, run, guard):
            self._told(key)

    async def _tell(self, key: Key, run: StepTimes, guard: Guard) -> bool:
        job_id, number = key
        now_ms = self._clock.wall_ms()

        def decide(view: JobView) -> list[Event]:
            attempt = _trains(view, number)
            newer = prediction(view, attempt, run, now_ms) if attempt is not None else None
            news = newer is not None and (view.calibrated != number or has_moved(view.prediction, newer))
            return [JobPlanned(prediction=newer)] if news else []

        try:
            if not decide(await self._journal.view(SYSTEM, job_id)):
                return False
            written = await self._journal.transact(SYSTEM, job_id, decide, at_ms=now_ms, guard=guard)
        except NotFound:
            return False
        return bool(written.recorded)

    def _told(self, key: Key) -> None:
        watched = self._watched.get(key)
        if watched is not None:
            watched.told += 1
            watched.pause_s = max(watched.pause_s, 30.0)
            if watched.told >= MOST_TOLD:
                self._agenda.drop(key)
            else:
                self._agenda.set(key, self._clock.monotonic() + watched.pause_s)


def _worth_a_look(progress: Mapping[str, object]) -> bool:
    step, steps = progress.get("step"), progress.get("steps")
    return isinstance(step, int) and isinstance(steps, int) and step >= 2 and steps > CONFIDENT_STEPS


def _trains(view: JobView, number: int) -> AttemptView | None:
    live = view.live_attempt
    return live if live is not None and live.number == number and not live.stop_reason else None
