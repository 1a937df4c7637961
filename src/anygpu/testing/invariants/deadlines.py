"""Invariant 9: a job meets its deadline if it could meet it on on-demand machines alone."""

from collections.abc import Iterator, Mapping

from anygpu.events.types import AttemptEnded, CancelRequested, JobFailed
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.scenario import ON_DEMAND_OVERHEAD_S
from anygpu.testing.simulation.world import SimWorld

Stories = Mapping[str, JobTimeline]
DEATHS = (Fault.KILLED_BEFORE_WRITE, Fault.KILLED_AFTER_WRITE)
OUTAGE_S = 200.0  # allowance for each crash: until another process leads, nothing is decided


def check(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    """Yield a violation for each missed deadline.

    Only histories with a reliable on-demand backend and without clock jumps are checked.
    """
    steady = any(backend.steady for backend in world.scenario.backends)
    if not steady or world.faults.counts[Fault.CLOCK_JUMPED]:
        return
    slack_s = OUTAGE_S * sum(world.faults.counts[fault] for fault in DEATHS)
    for timeline in timelines.values():
        yield from _check_deadline(world, timeline, slack_s)


def _check_deadline(world: SimWorld, timeline: JobTimeline, slack_s: float) -> Iterator[Violation]:
    spec = world.recorder.views[timeline.job_id].spec
    within_s, work_s = spec.limits.deadline_s, spec.placement.expected_duration_s
    if within_s is None or work_s is None or within_s < work_s + ON_DEMAND_OVERHEAD_S:
        return
    if timeline.events_of((CancelRequested, JobFailed)):
        return
    done = [entry.at for entry in timeline.events(AttemptEnded) if entry.event.exit_code == 0]
    took_s = (done[0] if done else float("inf")) - timeline.commits[0].at
    if took_s > within_s + slack_s:
        yield Violation(
            9, f"job {timeline.job_id} took {took_s:.0f} s, its deadline was after {within_s:.0f} s"
        )
