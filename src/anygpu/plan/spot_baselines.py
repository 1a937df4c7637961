"""What the spot policy is measured against: on-demand alone, greedy, and Uniform Progress (Wu et al., NSDI 2024)."""

from __future__ import annotations

from anygpu.plan.spot import (
    ON_DEMAND,
    WAIT,
    Decision,
    Moment,
    Policy,
    SpotJob,
    Where,
    decide,
    netted,
    safe,
    spare_s,
)
from anygpu.plan.spot_weather import Weather


def on_demand_only(job: SpotJob, at: Moment, weather: Weather) -> Decision:
    return Decision(ON_DEMAND, "nothing else is tried")


def greedy(job: SpotJob, at: Moment, weather: Weather) -> Decision:
    """Spot whenever there is any, else wait; on-demand when the deadline demands it, and then to the end."""
    if at.running == ON_DEMAND:
        return Decision(ON_DEMAND, "to the end")
    if at.running.kind == "spot":
        return netted(job, at, Decision(at.running, "while it lasts"))
    wished = Decision(_first(at), "spot, or wait for it")
    return netted(
        job, at, wished if safe(job, at, wished.where) else Decision(WAIT, "too late to start spot")
    )


def uniform_progress(job: SpotJob, at: Moment, weather: Weather) -> Decision:
    """Stay on the line of uniform progress; take spot when idle; leave on-demand only when two restarts ahead."""
    if at.running.kind == "spot":
        return netted(job, at, Decision(at.running, "until it is taken"))
    if at.running == ON_DEMAND:
        return _off_on_demand(job, at)
    if spare_s(job, at) < job.restart_s + at.tick_s:
        return Decision(ON_DEMAND, "safety net")
    if at.available:
        return netted(job, at, Decision(_first(at), "spot is there"))
    return Decision(ON_DEMAND if _ahead_s(job, at, at.now_s) < 0 else WAIT, "the line of uniform progress")


def _off_on_demand(job: SpotJob, at: Moment) -> Decision:
    if _ahead_s(job, at, at.now_s + 2 * job.restart_s) < 0:
        return Decision(ON_DEMAND, "not two restarts ahead")
    wished = Decision(_first(at), "two restarts ahead")
    if wished.where == WAIT and spare_s(job, at) < job.restart_s + at.tick_s:
        return Decision(ON_DEMAND, "safety net")
    return netted(job, at, wished)


def _ahead_s(job: SpotJob, at: Moment, when_s: float) -> float:
    return job.work_s - at.work_left_s - job.work_s * when_s / job.deadline_s


def _first(at: Moment) -> Where:
    return Where("spot", at.available[0]) if at.available else WAIT


POLICIES: dict[str, Policy] = {
    "on-demand": on_demand_only,
    "greedy": greedy,
    "uniform-progress": uniform_progress,
    "anygpu": decide,
}
