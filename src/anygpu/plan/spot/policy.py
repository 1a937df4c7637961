"""Choose between waiting, spot and on-demand at each tick, so that a job meets its deadline at low cost.

A tick is the time between two decisions, 10 minutes by default. If an on-demand machine started at once
would meet the deadline, this policy meets it too. docs/explanation/spot.md derives the rule and its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pow
from typing import Literal

from anygpu.plan.spot.availability import Outlook, SpotAvailability

UNFORESEEN_SHARE = 0.065  # of the remaining work: time reserved for unforeseen returns of spot
RESTARTS_PER_RETURN = 1.5  # one restart from idle, two from on-demand and back
WAIT_SHARE = 0.75  # of the reserve that may be spent waiting for spot that returns at the next tick
SCARCITY_POWER = 0.75  # power of reserve over slack by which restarts become more expensive
TOLERANCE_S = 1e-6  # rounding error of sums of seconds


@dataclass(frozen=True, slots=True)
class MachineChoice:
    """The kind of machine for a job: a spot machine in a zone, an on-demand machine, or none (wait)."""

    kind: Literal["wait", "spot", "on-demand"]
    zone: str = ""

    def __str__(self) -> str:
        return f"spot in {self.zone}" if self.zone else self.kind


WAIT, ON_DEMAND = MachineChoice("wait"), MachineChoice("on-demand")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotJob:
    """A job that has a deadline, can be interrupted, and loses `restart_s` seconds at each start."""

    work_s: float
    deadline_s: float  # from the start
    restart_s: float  # setup, and the work since the last checkpoint
    on_demand_usd_per_hour: float
    spot_usd_per_hour: Mapping[str, float]  # by zone
    detection_s: float = 0.0  # how long a lost machine may go unnoticed

    def price_usd_per_hour(self, choice: MachineChoice) -> float:
        if choice.kind == "spot":
            return self.spot_usd_per_hour[choice.zone]
        return self.on_demand_usd_per_hour if choice.kind == "on-demand" else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TickState:
    """The state of a job and the spot machines that are available, at the moment of a decision."""

    now_s: float
    work_left_s: float
    available: tuple[str, ...]  # zones that have spot now
    running: MachineChoice = WAIT  # WAIT after an interruption
    starting_s: float = 0.0  # remaining restart time of the running machine
    tick_s: float = 600.0  # until the next decision


@dataclass(frozen=True, slots=True)
class SpotDecision:
    choice: MachineChoice
    reason: str


SpotPolicy = Callable[[SpotJob, TickState, SpotAvailability], SpotDecision]


def choose_machine(job: SpotJob, state: TickState, availability: SpotAvailability) -> SpotDecision:
    """Choose spot, on-demand or waiting until the next tick.

    `availability` must already include the observation `state.available`.
    """
    if state.running.kind == "spot":
        return enforce_deadline(job, state, SpotDecision(state.running, "stays on spot"))
    slack, reserve = slack_s(job, state), reserve_s(job, state, availability)
    best = _best_zone(job, state, availability)
    if best and _is_worth_switching(
        job, state, availability, best, restart_usd=_restart_cost_usd(job, reserve / max(slack, 1.0))
    ):
        return enforce_deadline(
            job,
            state,
            SpotDecision(MachineChoice("spot", best), f"spot in {best} is expected to last long enough"),
        )
    if state.running == ON_DEMAND:
        return SpotDecision(ON_DEMAND, "no zone with spot saves enough to pay for two restarts")
    kept_s = reserve if best else reserve * (1 - WAIT_SHARE * _return_probability(job, availability))
    if slack - state.tick_s >= kept_s:
        return enforce_deadline(
            job, state, SpotDecision(WAIT, f"{_hours(slack - kept_s)} left to wait for spot")
        )
    return SpotDecision(ON_DEMAND, f"{_hours(slack)} of slack left, all reserved for restarts")


def enforce_deadline(job: SpotJob, state: TickState, preferred: SpotDecision) -> SpotDecision:
    """Return the preferred decision; on-demand instead if the preferred decision could miss the deadline."""
    if is_safe(job, state, preferred.choice):
        return preferred
    return SpotDecision(
        ON_DEMAND, f"only {_hours(max(0.0, slack_s(job, state)))} of slack until the deadline"
    )


def is_safe(job: SpotJob, state: TickState, choice: MachineChoice) -> bool:
    """Return whether the job still meets its deadline if it takes `choice` until the next decision (tick).

    The time that may be lost must be within the slack. Waiting loses the whole tick; spot may lose the time to start
    and the time until an interruption is noticed.
    """
    if choice == ON_DEMAND:
        return True
    if choice == WAIT:
        return slack_s(job, state) + TOLERANCE_S >= state.tick_s
    starting_s = state.starting_s if choice == state.running else job.restart_s
    return slack_s(job, state) + TOLERANCE_S >= min(state.tick_s, starting_s) + job.detection_s


def slack_s(job: SpotJob, state: TickState) -> float:
    """Return the slack: for how many seconds the job can wait before it must start on demand to meet its deadline."""
    return job.deadline_s - state.now_s - state.work_left_s - job.restart_s


def reserve_s(job: SpotJob, state: TickState, availability: SpotAvailability) -> float:
    """Return how many seconds of slack to keep for restarts, if spot returns as often as it did recently."""
    returns = (job.deadline_s - state.now_s) * availability.returns_per_s
    return (1 + RESTARTS_PER_RETURN * returns) * job.restart_s + UNFORESEEN_SHARE * state.work_left_s


def _return_probability(job: SpotJob, availability: SpotAvailability) -> float:
    """Return the probability that spot machines are available again at the next decision (tick).

    It is scaled down if a tick is longer than a restart.
    """
    return availability.outage.hazard * min(1.0, job.restart_s / availability.tick_s)


def _best_zone(job: SpotJob, state: TickState, availability: SpotAvailability) -> str:
    """Return the zone with the highest expected savings; empty if no zone has spot.

    Savings are relative to on-demand, until the zone is expected to interrupt the job or the job ends.
    """

    def saves(zone: str) -> float:
        return _savings_usd(
            job, zone, _outlook(job, state, availability, zone).expected_ticks * availability.tick_s
        )

    return max(sorted(state.available), key=saves, default="")


def _is_worth_switching(
    job: SpotJob, state: TickState, availability: SpotAvailability, zone: str, *, restart_usd: float
) -> bool:
    """Return whether the expected savings of starting on spot in `zone` exceed the cost of restarts.

    A waiting job saves enough if the savings exceed the cost of one restart, times the probability that the
    zone interrupts the job. A job on an on-demand machine would restart twice, on spot and back, so the
    savings until the expected interruption must exceed the cost of two restarts.
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
    """Return what a restart costs in dollars.

    It costs more if slack is scarce. `scarcity` is the slack to keep in reserve, divided by the slack.
    """
    return job.restart_s / 3600 * job.on_demand_usd_per_hour * pow(max(1.0, scarcity), SCARCITY_POWER)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
