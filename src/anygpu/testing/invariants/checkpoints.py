"""Invariant 6: an attempt resumes from the newest valid checkpoint, and only from completely uploaded ones."""

from collections.abc import Iterator, Mapping

from anygpu.events.facts import CheckpointRef
from anygpu.events.types import AttemptLaunching, CheckpointRejected, CheckpointSaved
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.records import Commit
from anygpu.testing.simulation.world import SimWorld

READING_S = 5.0  # from verifying a checkpoint to writing the intent; stalls do not count


def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    for timeline in timelines.values():
        yield from _check_resumes(world, timeline)
    for record in world.environment.records:
        assigned = record.resume["step"] if record.resume is not None else None
        if record.restored_step not in (None, assigned):
            yield Violation(6, f"{record.name} restored another step than that of its checkpoint")


def _check_resumes(world: SimWorld, timeline: JobTimeline) -> Iterator[Violation]:
    published: set[str] = set()
    kept: list[CheckpointRef] = []
    keep = world.recorder.views[timeline.job_id].spec.checkpoint.keep
    for commit in timeline.commits:
        event = commit.recorded.event
        if isinstance(event, CheckpointSaved) and event.checkpoint.id not in published:
            published.add(event.checkpoint.id)
            kept = [*kept, event.checkpoint][-keep:]
        elif isinstance(event, CheckpointRejected):
            yield from _check_rejection(world, event, kept, commit.at)
            kept = [c for c in kept if c.id != event.checkpoint_id]
        elif isinstance(event, AttemptLaunching):
            yield from _check_resume(world, event, kept[-1] if kept else None, commit)


def _check_rejection(
    world: SimWorld, event: CheckpointRejected, kept: list[CheckpointRef], at: float
) -> Iterator[Violation]:
    for checkpoint in kept:
        damaged_at = world.damaged.get(checkpoint.manifest, float("inf"))
        if checkpoint.id == event.checkpoint_id and damaged_at > at:
            yield Violation(6, f"the checkpoint {checkpoint.id} was rejected but is valid")


def _check_resume(
    world: SimWorld, event: AttemptLaunching, newest: CheckpointRef | None, commit: Commit
) -> Iterator[Violation]:
    chosen = event.resume.id if event.resume is not None else None
    if chosen != (newest.id if newest is not None else None):
        yield Violation(6, f"{event.name} resumes from {_step(event.resume)}, not from {_step(newest)}")
    damaged_at = world.damaged.get(newest.manifest, 0.0) if newest is not None else 0.0
    (writer,) = (each.life for each in world.processes if each.life.name == commit.process)
    if event.name in world.resumed_damaged and writer.running_s(damaged_at, commit.at) > READING_S:
        yield Violation(6, f"{event.name} resumes from a damaged checkpoint")


def _step(checkpoint: CheckpointRef | None) -> str:
    return "the beginning" if checkpoint is None else f"step {checkpoint.step}"
