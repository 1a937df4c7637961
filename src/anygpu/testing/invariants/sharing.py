"""Invariants 5 (no project exceeds its quota) and 11 (only jobs that can resume are preempted for other jobs)."""

from collections import Counter
from collections.abc import Iterator, Mapping

from anygpu.events.slots import needed_slots
from anygpu.events.types import AttemptLaunching, AttemptReleased, StopRequested, TrainingResumed
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.world import SimWorld

Stories = Mapping[str, JobTimeline]


def check(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    yield from _quotas(world)
    yield from _check_preemptions(world, timelines)


def _quotas(world: SimWorld) -> Iterator[Violation]:
    sharing, held = world.scenario.policy.sharing, Counter[str]()
    if sharing.may_borrow or not sharing.quotas:
        return
    free = {each.name for each in world.scenario.backends if not each.price}
    for recorded in (commit.recorded for commit in world.recorder.commits):
        view, event = world.recorder.views[recorded.job_id], recorded.event
        slots = needed_slots(view.spec.resources)[1]
        if isinstance(event, AttemptLaunching) and event.offer.backend in free:
            held[recorded.project] += slots
            if held[recorded.project] > sharing.quotas.get(recorded.project, held[recorded.project]):
                yield Violation(
                    5, f"project {recorded.project} uses {held[recorded.project]} slots, more than its quota"
                )
        elif isinstance(event, AttemptReleased) and view.attempts[event.attempt - 1].offer.backend in free:
            held[recorded.project] -= slots


def _check_preemptions(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    for job_id, timeline in timelines.items():
        view = world.recorder.views[job_id]
        resumed = [entry.at for entry in timeline.events(TrainingResumed)]
        for stop in (entry for entry in timeline.events(StopRequested) if entry.event.makes_room_for):
            says_how = bool(view.spec.checkpoint.resume_args)
            if not says_how and not any(at <= stop.at for at in resumed):
                yield Violation(
                    11, f"job {job_id} was stopped for another job, but nothing shows that it can resume"
                )
            if stop.event.makes_room_for not in timelines.keys() | world.damaged_jobs:
                yield Violation(11, f"job {job_id} was stopped for an unknown job")
