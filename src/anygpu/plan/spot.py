"""Spot with a deadline: at each tick wait, take spot, or take on-demand. Never late when on-demand could be on time.

Pure: the same question always gets the same answer. docs/spot.md derives the rule and shows what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pow
from typing import Literal

from anygpu.plan.spot_weather import Outlook, Weather

CUSHION = 0.065  # of the work left: time kept for returns nobody foresaw
PER_RETURN = 1.5  # restarts each time spot comes back: one from idle, two from on-demand and back to it
HOPE = 0.75  # of the reserve may be waited away for spot that is sure to be back at the next tick
RISE = 0.75  # the power of reserve over spare time by which restarts get dearer
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
    if best and _pays(job, at, weather, best, restart_usd=_restart_usd(job, reserve / max(spare, 1.0))):
        return netted(job, at, Decision(Where("spot", best), f"{best} is expected to last"))
    if at.running == ON_DEMAND:
        return Decision(ON_DEMAND, "no spot worth going there and back")
    kept = reserve if best else reserve * (1 - HOPE * _soon_back(job, weather))
    if spare - at.tick_s >= kept:
        return netted(job, at, Decision(WAIT, f"{_hours(spare - kept)} may be waited for spot"))
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


def _soon_back(job: SpotJob, weather: Weather) -> float:
    """The chance that spot is back at the next tick, if waiting for that takes no longer than a restart."""
    return weather.drought.hazard * min(1.0, job.restart_s / weather.tick_s)


def _best_zone(job: SpotJob, at: Moment, weather: Weather) -> str:
    """The zone that is expected to save most before it is taken away or the job is done."""

    def saves(zone: str) -> float:
        return _cheaper_usd(job, zone, _outlook(job, at, weather, zone).ticks * weather.tick_s)

    return max(sorted(at.available), key=saves, default="")


def _pays(job: SpotJob, at: Moment, weather: Weather, zone: str, *, restart_usd: float) -> bool:
    """From idle: it saves more than the restart after its loss. From on-demand: more in a tick than that tick's risk of
    a restart there and one back; else it is left to prove itself for another tick.
    """
    if at.running == WAIT:
        seen = _outlook(job, at, weather, zone)
        return _cheaper_usd(job, zone, seen.ticks * weather.tick_s) >= (1 - seen.through) * restart_usd
    proven_s = min(weather.tick_s / weather.zones[zone].hazard, at.work_left_s + job.restart_s)
    return _cheaper_usd(job, zone, proven_s) >= 2 * restart_usd


def _outlook(job: SpotJob, at: Moment, weather: Weather, zone: str) -> Outlook:
    return weather.zones[zone].outlook((at.work_left_s + job.restart_s) / weather.tick_s)


def _cheaper_usd(job: SpotJob, zone: str, seconds: float) -> float:
    return seconds / 3600 * (job.on_demand_usd_per_hour - job.spot_usd_per_hour[zone])


def _restart_usd(job: SpotJob, scarcity: float) -> float:
    """What a restart costs, dearer the less time there is for restarts."""
    return job.restart_s / 3600 * job.on_demand_usd_per_hour * pow(max(1.0, scarcity), RISE)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
