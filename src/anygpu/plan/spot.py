"""Spot with a deadline: at each tick wait, take spot, or take on-demand. Never late when on-demand could be on time.

Pure: the same question always gets the same answer. docs/spot.md derives the rule and shows what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from anygpu.plan.spot_weather import Weather

CUSHION = 0.06  # of the work left: time kept for returns nobody foresaw
PER_RETURN = 1.5  # restarts each time spot comes back: one from idle, two from on-demand and back to it
WORTH = (
    3.0  # restarts a run must pay for to leave on-demand: one out, one back, one that is then not there later
)
HAIR_S = 1e-6  # what sums of seconds may be off


@dataclass(frozen=True, slots=True)
class Where:
    """What a job is on, or should be."""

    kind: Literal["wait", "spot", "on-demand"]
    zone: str = ""

    def __str__(self) -> str:
        return f"spot in {self.zone}" if self.zone else self.kind


WAIT, ON_DEMAND = Where("wait"), Where("on-demand")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """A job that may be interrupted, has a deadline, and loses `restart_s` with each start."""

    work_s: float
    deadline_s: float  # from the start
    restart_s: float  # setting up, and what is done again since the last checkpoint
    on_demand_usd_per_hour: float
    spot_usd_per_hour: Mapping[str, float]  # by zone
    blind_s: float = 0.0  # how long a lost machine may go unnoticed

    def price_usd_per_hour(self, where: Where) -> float:
        if where.kind == "spot":
            return self.spot_usd_per_hour[where.zone]
        return self.on_demand_usd_per_hour if where.kind == "on-demand" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How things stand at one tick."""

    now_s: float
    work_left_s: float
    available: tuple[str, ...]  # zones that have spot now
    running: Where = WAIT  # a spot machine that was taken back is no longer running
    starting_s: float = 0.0  # what is left of the restart of what runs
    tick_s: float = 600.0  # until the next decision


@dataclass(frozen=True, slots=True)
class Decision:
    where: Where
    why: str


Policy = Callable[[SpotJob, Moment, Weather], Decision]


def decide(job: SpotJob, at: Moment, weather: Weather) -> Decision:
    """Our policy. `weather` has seen `at.available` already."""
    if at.running.kind == "spot":
        return netted(job, at, Decision(at.running, "spot goes on"))
    spare, reserve = spare_s(job, at), reserve_s(job, at, weather)
    best = _best_zone(job, at, weather)
    if best and _saves_usd(job, at, weather, best) >= _restarts_usd(job, at, reserve / max(spare, 1.0)):
        return netted(job, at, Decision(Where("spot", best), f"{best} is expected to last"))
    if best and at.running == WAIT and _sees_it_done(job, at, weather, best):
        return netted(job, at, Decision(Where("spot", best), f"{best} is expected to see it done"))
    if at.running == ON_DEMAND:
        return Decision(ON_DEMAND, "no spot worth going there and back")
    if spare - at.tick_s >= reserve:
        return netted(job, at, Decision(WAIT, f"{_hours(spare - reserve)} may be waited for spot"))
    return Decision(ON_DEMAND, f"{_hours(spare)} to spare are kept for restarts")


def netted(job: SpotJob, at: Moment, wished: Decision) -> Decision:
    """The safety net: what is wished, unless on-demand could then no longer be on time."""
    if safe(job, at, wished.where):
        return wished
    return Decision(ON_DEMAND, f"the deadline leaves {_hours(max(0.0, spare_s(job, at)))} to spare")


def safe(job: SpotJob, at: Moment, where: Where) -> bool:
    """Whether on-demand, started at the next tick, would still be on time whatever happens until then."""
    if where == ON_DEMAND:
        return True
    if where == WAIT:
        return spare_s(job, at) + HAIR_S >= at.tick_s
    starting_s = at.starting_s if where == at.running else job.restart_s
    return spare_s(job, at) + HAIR_S >= min(at.tick_s, starting_s) + job.blind_s


def spare_s(job: SpotJob, at: Moment) -> float:
    """The time that could be idled away before on-demand has to start."""
    return job.deadline_s - at.now_s - at.work_left_s - job.restart_s


def reserve_s(job: SpotJob, at: Moment, weather: Weather) -> float:
    """The time that going to spot and back will take until the deadline, if spot comes back as often as lately."""
    returns = (job.deadline_s - at.now_s) * weather.returns_per_s
    return (1 + PER_RETURN * returns) * job.restart_s + CUSHION * at.work_left_s


def _best_zone(job: SpotJob, at: Moment, weather: Weather) -> str:
    return max(sorted(at.available), key=lambda zone: _saves_usd(job, at, weather, zone), default="")


def _saves_usd(job: SpotJob, at: Moment, weather: Weather, zone: str) -> float:
    """What the zone is expected to save against on-demand before it is taken away or the job is done."""
    lasts_s = min(weather.lasts_s(zone), at.work_left_s + job.restart_s)
    return lasts_s / 3600 * (job.on_demand_usd_per_hour - job.spot_usd_per_hour[zone])


def _sees_it_done(job: SpotJob, at: Moment, weather: Weather, zone: str) -> bool:
    """Then the restart is paid for once, as it would be on-demand later."""
    cheaper = job.spot_usd_per_hour[zone] < job.on_demand_usd_per_hour
    return cheaper and weather.lasts_s(zone) >= at.work_left_s + job.restart_s


def _restarts_usd(job: SpotJob, at: Moment, scarcity: float) -> float:
    """What must be saved: the restarts, dearer the less time there is for them."""
    restarts = WORTH if at.running == ON_DEMAND else 1.0
    return restarts * job.restart_s / 3600 * job.on_demand_usd_per_hour * max(1.0, scarcity)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
