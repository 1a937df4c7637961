"""Spot with a deadline: at each tick wait, take spot, or take on-demand. Never late when on-demand could be on time.

Pure: the same question always gets the same answer. docs/spot.md derives the rule and shows what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pow
from typing import Literal

from anygpu.plan.spot.availability import Outlook, SpotAvailability

UNFORESEEN_SHARE = 0.065  # of the work left: time kept for returns nobody foresaw
RESTARTS_PER_RETURN = (
    1.5  # restarts each time spot comes back: one from idle, two from on-demand and back to it
)
WAIT_SHARE = 0.75  # of the reserve may be waited away for spot that is sure to be back at the next tick
SCARCITY_POWER = 0.75  # the power of reserve over spare time by which restarts get dearer
TOLERANCE_S = 1e-6  # what sums of seconds may be off


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """What a job is on, or should be."""

    kind: Literal["wait", "spot", "on-demand"]
    zone: str = ""

    def __str__(self) -> str:
        return f"spot in {self.zone}" if self.zone else self.kind


WAIT, ON_DEMAND = MachineChoice("wait"), MachineChoice("on-demand")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """A job that may be interrupted, has a deadline, and loses `restart_s` with each start."""

    work_s: float
    deadline_s: float  # from the start
    restart_s: float  # setting up, and what is done again since the last checkpoint
    on_demand_usd_per_hour: float
    spot_usd_per_hour: Mapping[str, float]  # by zone
    detection_s: float = 0.0  # how long a lost machine may go unnoticed

    def price_usd_per_hour(self, choice: MachineChoice) -> float:
        if choice.kind == "spot":
            return self.spot_usd_per_hour[choice.zone]
        return self.on_demand_usd_per_hour if choice.kind == "on-demand" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TickState:
    """How things stand at one tick."""

    now_s: float
    work_left_s: float
    available: tuple[str, ...]  # zones that have spot now
    running: MachineChoice = WAIT  # a spot machine that was taken back is no longer running
    starting_s: float = 0.0  # what is left of the restart of what runs
    tick_s: float = 600.0  # until the next decision


@dataclass(frozen=True, slots=True)
class SpotDecision:
    choice: MachineChoice
    reason: str


SpotPolicy = Callable[[SpotJob, TickState, SpotAvailability], SpotDecision]


def choose_machine(job: SpotJob, state: TickState, availability: SpotAvailability) -> SpotDecision:
    """Our policy. `weather` has seen `at.available` already."""
    if state.running.kind == "spot":
        return enforce_deadline(job, state, SpotDecision(state.running, "spot goes on"))
    slack, reserve = slack_s(job, state), reserve_s(job, state, availability)
    best = _best_zone(job, state, availability)
    if best and _is_worth_switching(
        job, state, availability, best, restart_usd=_restart_cost_usd(job, reserve / max(slack, 1.0))
    ):
        return enforce_deadline(
            job, state, SpotDecision(MachineChoice("spot", best), f"{best} is expected to last")
        )
    if state.running == ON_DEMAND:
        return SpotDecision(ON_DEMAND, "no spot worth going there and back")
    kept_s = reserve if best else reserve * (1 - WAIT_SHARE * _return_probability(job, availability))
    if slack - state.tick_s >= kept_s:
        return enforce_deadline(
            job, state, SpotDecision(WAIT, f"{_hours(slack - kept_s)} may be waited for spot")
        )
    return SpotDecision(ON_DEMAND, f"{_hours(slack)} to spare are kept for restarts")


def enforce_deadline(job: SpotJob, state: TickState, preferred: SpotDecision) -> SpotDecision:
    """The safety net: what is wished, unless on-demand could then no longer be on time."""
    if is_safe(job, state, preferred.choice):
        return preferred
    return SpotDecision(ON_DEMAND, f"the deadline leaves {_hours(max(0.0, slack_s(job, state)))} to spare")


def is_safe(job: SpotJob, state: TickState, choice: MachineChoice) -> bool:
    """Whether on-demand, started at the next tick, would still be on time whatever happens until then."""
    if choice == ON_DEMAND:
        return True
    if choice == WAIT:
        return slack_s(job, state) + TOLERANCE_S >= state.tick_s
    starting_s = state.starting_s if choice == state.running else job.restart_s
    return slack_s(job, state) + TOLERANCE_S >= min(state.tick_s, starting_s) + job.detection_s


def slack_s(job: SpotJob, state: TickState) -> float:
    """The time that could be idled away before on-demand has to start."""
    return job.deadline_s - state.now_s - state.work_left_s - job.restart_s


def reserve_s(job: SpotJob, state: TickState, availability: SpotAvailability) -> float:
    """The time that going to spot and back will take until the deadline, if spot comes back as often as lately."""
    returns = (job.deadline_s - state.now_s) * availability.returns_per_s
    return (1 + RESTARTS_PER_RETURN * returns) * job.restart_s + UNFORESEEN_SHARE * state.work_left_s


def _return_probability(job: SpotJob, availability: SpotAvailability) -> float:
    """The chance that spot is back at the next tick, if waiting for that takes no longer than a restart."""
    return availability.outage.hazard * min(1.0, job.restart_s / availability.tick_s)


def _best_zone(job: SpotJob, state: TickState, availability: SpotAvailability) -> str:
    """The zone that is expected to save most before it is taken away or the job is done."""

    def saves(zone: str) -> float:
        return _savings_usd(
            job, zone, _outlook(job, state, availability, zone).expected_ticks * availability.tick_s
        )

    return max(sorted(state.available), key=saves, default="")


def _is_worth_switching(
    job: SpotJob, state: TickState, availability: SpotAvailability, zone: str, *, restart_usd: float
) -> bool:
    """From idle: it saves more than the restart after its loss. From on-demand: more in a tick than that tick's risk of
    a restart there and one back; else it is left to prove itself for another tick.
    """
    if state.running == WAIT:
        seen = _outlook(job, state, availability, zone)
        return (
            _savings_usd(job, zone, seen.expected_ticks * availability.tick_s)
            >= (1 - seen.survival) * restart_usd
        )
    proven_s = min(availability.tick_s / availability.zones[zone].hazard, state.work_left_s + job.restart_s)
    return _savings_usd(job, zone, proven_s) >= 2 * restart_usd


def _outlook(job: SpotJob, state: TickState, availability: SpotAvailability, zone: str) -> Outlook:
    return availability.zones[zone].outlook((state.work_left_s + job.restart_s) / availability.tick_s)


def _savings_usd(job: SpotJob, zone: str, seconds: float) -> float:
    return seconds / 3600 * (job.on_demand_usd_per_hour - job.spot_usd_per_hour[zone])


def _restart_cost_usd(job: SpotJob, scarcity: float) -> float:
    """What a restart costs, dearer the less time there is for restarts."""
    return job.restart_s / 3600 * job.on_demand_usd_per_hour * pow(max(1.0, scarcity), SCARCITY_POWER)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
