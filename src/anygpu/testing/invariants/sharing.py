"""Invariants 5 (no project exceeds its quota) and 11 (only jobs that can resume are preempted for other jobs)."""

from collections import Counter
from collections.abc import Iterator, Mapping

from anygpu.events.slots import needed_slots
from anygpu.events.types import AttemptLaunching, AttemptReleased, CheckpointSaved, StopRequested
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
        saved = [entry.at for entry in timeline.events(CheckpointSaved)]
        for stop in (entry for entry in timeline.events(StopRequested) if entry.event.makes_room_for):
            says_how = bool(world.recorder.views[job_id].spec.checkpoint.paths)
            if not says_how and not any(at <= stop.at for at in saved):
                yield Violation(
                    11, f"job {job_id} was stopped for another job, but has no checkpoint to resume from"
                )
            if stop.event.makes_room_for not in timelines.keys() | world.damaged_jobs:
                yield Violation(11, f"job {job_id} was stopped for an unknown job")
