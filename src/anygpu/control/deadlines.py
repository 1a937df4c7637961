"""Remembers how spot has been for each job with a deadline, and asks the policy. Lost with the process, by design."""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from anygpu.control.deadline import (
    Choices,
    Move,
    Question,
    answer,
    choices,
    is_fresh,
    move,
    pause_s,
    question,
    steered,
)
from anygpu.control.policy import Policy
from anygpu.control.seams import Clock
from anygpu.events.view import JobView
from anygpu.plan.offers.fit import Plan
from anygpu.plan.spot.availability import AvailabilityInterval, SpotAvailability
from anygpu.plan.spot.policy import ON_DEMAND, SpotDecision


@dataclass(slots=True)
class _Memory:
    """Of one job."""

    weather: SpotAvailability
    looked_at: float = float("-inf")
    due: float = float("-inf")  # when to look at it again while it runs
    stage: object = None  # at the last look: what changes at once how much time is to spare
    wants_spot: bool = False  # as soon as it has a fresh checkpoint


class Deadlines:
    """For jobs that wait, a plan as the policy wants it; for those that run, whether they shall move."""

    def __init__(self, clock: Clock, policy: Policy) -> None:
        self._clock = clock
        self._policy = policy
        self._memories: dict[str, _Memory] = {}

    def steer(self, view: JobView, plan: Plan) -> Plan:
        """A job with a deadline that has nothing to choose from keeps its plan."""
        among = choices(plan)
        if among is None or not among.spot or plan.choice is None or view.migrate_to:
            return plan
        now_ms = self._clock.wall_ms()
        asked = question(view, among, now_ms, self._policy)
        if isinstance(asked, str):
            return steered(plan, among, SpotDecision(ON_DEMAND, asked), None)
        return steered(plan, among, self._answer(view, among, asked), asked)

    def move(self, view: JobView, plan: Plan) -> Move | None:
        """Whether a job that runs shall save, stop, and go on elsewhere."""
        memory, among = self._memory(view), choices(plan)
        memory.due, memory.wants_spot = self._clock.monotonic() + self._policy.spot_tick_s, False
        memory.stage = _stage(view)
        if among is None:
            return None
        now_ms = self._clock.wall_ms()
        asked = question(view, among, now_ms, self._policy)
        if isinstance(asked, str):
            return None
        memory.due = self._clock.monotonic() + pause_s(asked, self._policy)
        said = self._answer(view, among, asked)
        memory.wants_spot = asked.at.running == ON_DEMAND and said.choice.kind == "spot"
        return move(view, among, said, now_ms)

    def next_at(self, views: Iterable[JobView]) -> float:
        """When the first of these, which have deadlines, is to be looked at."""
        return min((self._due(view) for view in views), default=float("inf"))

    def due(self, views: Iterable[JobView]) -> list[JobView]:
        now = self._clock.monotonic()
        return [view for view in views if self._due(view) <= now]

    def forget_others(self, live: Set[str]) -> None:
        for job_id in [*self._memories.keys() - live]:
            del self._memories[job_id]

    def _due(self, view: JobView) -> float:
        live = view.live_attempt
        if live is None or live.stop_reason is not None:
            return float("inf")
        memory = self._memory(view)
        fresh = memory.wants_spot and is_fresh(view, self._clock.wall_ms())
        return float("-inf") if fresh or memory.stage != _stage(view) else memory.due

    def _answer(self, view: JobView, among: Choices, asked: Question) -> SpotDecision:
        memory = self._memory(view)
        zones = {
            zone: AvailabilityInterval()
            for zone in asked.job.spot_usd_per_hour
            if zone not in memory.weather.zones
        }
        if zones:
            memory.weather = replace(memory.weather, zones={**memory.weather.zones, **zones})
        if self._clock.monotonic() - memory.looked_at >= self._policy.spot_tick_s:
            memory.looked_at = self._clock.monotonic()
            memory.weather = memory.weather.observe(asked.at.available)
        return answer(asked, memory.weather)

    def _memory(self, view: JobView) -> _Memory:
        unknown = SpotAvailability.initial((), self._policy.spot_tick_s)
        return self._memories.setdefault(view.id, _Memory(weather=unknown))


def _stage(view: JobView) -> object:
    live = view.live_attempt
    return live and (live.number, live.training_at_ms), view.prediction
