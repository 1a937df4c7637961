"""Play a job through recorded spot availability, tick by tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.plan.spot import ON_DEMAND, WAIT, Moment, Policy, SpotJob, Where
from anygpu.plan.spot_weather import Weather


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the job."""

    cost_usd: float
    finished_s: float
    restarts: int
    late: bool


@dataclass(slots=True)
class _Run:
    """A job on its way."""

    job: SpotJob
    work_left_s: float
    running: Where = WAIT
    starting_s: float = 0.0
    cost_usd: float = 0.0
    restarts: int = 0

    def lose(self) -> None:
        self.running, self.starting_s = WAIT, 0.0

    def turn_to(self, where: Where) -> None:
        if where != self.running:
            self.restarts += where != WAIT
            self.starting_s = 0.0 if where == WAIT else self.job.restart_s
        self.running = where

    def pass_time(self, tick_s: float) -> float:
        """How much of the tick was needed; what ran is paid for."""
        needed_s = self.starting_s + self.work_left_s
        used_s = tick_s if self.running == WAIT else min(tick_s, needed_s)
        self.cost_usd += self.job.price_usd_per_hour(self.running) * used_s / 3600
        if self.running != WAIT:
            self.work_left_s -= max(0.0, used_s - self.starting_s)
            self.starting_s = max(0.0, self.starting_s - used_s)
        return used_s


def replay(
    job: SpotJob,
    availability: Mapping[str, Sequence[int]],
    tick_s: float,
    policy: Policy,
) -> Outcome:
    """The job under the policy. Where the record ends it goes on on-demand."""
    run = _Run(job, job.work_s)
    weather = Weather.unknown(availability, tick_s)
    now_s = 0.0
    for tick in range(min(map(len, availability.values()), default=0)):
        available = tuple(zone for zone, seen in availability.items() if seen[tick])
        weather = weather.seen(available)
        if run.running.kind == "spot" and run.running.zone not in available:
            run.lose()
        moment = Moment(
            now_s=now_s,
            work_left_s=run.work_left_s,
            available=available,
            running=run.running,
            starting_s=run.starting_s,
            tick_s=tick_s,
        )
        run.turn_to(policy(job, moment, weather).where)
        now_s += run.pass_time(tick_s)
        if run.work_left_s <= 0:
            return _outcome(run, now_s)
    run.turn_to(ON_DEMAND)
    return _outcome(run, now_s + run.pass_time(float("inf")))


def _outcome(run: _Run, finished_s: float) -> Outcome:
    late = finished_s > run.job.deadline_s + 1e-3
    return Outcome(cost_usd=run.cost_usd, finished_s=finished_s, restarts=run.restarts, late=late)
