"""Invariant 13: a running job migrates only to a better offer, only with a checkpoint, and not too often."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from anygpu.control.progress import deadline_ms
from anygpu.control.reconcile.verdict import MIGRATION_REASON
from anygpu.control.schedule.migration import migration_mode
from anygpu.events.types import AttemptLaunching, BetterPlaceFound, CheckpointSaved, StopRequested
from anygpu.testing.invariants.timeline import JobTimeline, TimedEvent, Violation
from anygpu.testing.simulation.world import SimWorld

Stories = Mapping[str, JobTimeline]


def check(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    rules = world.scenario.policy.migration
    for job_id, timeline in timelines.items():
        view = world.recorder.views[job_id]
        if deadline_ms(view) is not None:
            continue
        left = [entry for entry in timeline.events(StopRequested) if entry.event.reason == MIGRATION_REASON]
        if left and migration_mode(view.spec, rules) != "act":
            yield Violation(13, f"job {job_id} migrated, which its policy does not allow")
        if len(left) > rules.max_moves:
            yield Violation(13, f"job {job_id} migrated {len(left)} times, more often than its policy allows")
        if any(later.at - earlier.at < rules.min_interval_s for earlier, later in pairwise(left)):
            yield Violation(13, f"job {job_id} migrated again sooner than its policy allows")
        for number, stop in enumerate(left, 1):
            yield from _check_target(timeline, stop, left[:number])


def _check_target(
    timeline: JobTimeline, stop: TimedEvent[StopRequested], left: Sequence[TimedEvent[StopRequested]]
) -> Iterator[Violation]:
    """Yield a violation if the job migrated without a checkpoint, without a better offer, or back to an old offer."""
    number = stop.event.attempt
    if not any(
        entry.event.attempt == number and entry.at <= stop.at for entry in timeline.events(CheckpointSaved)
    ):
        yield Violation(13, f"job {timeline.job_id} migrated without a checkpoint of that attempt")
    targets = [
        entry.event.better for entry in timeline.events(BetterPlaceFound) if entry.event.attempt == number
    ]
    launched = {entry.event.attempt: entry.event.offer.key for entry in timeline.events(AttemptLaunching)}
    left_offers = {launched[each.event.attempt] for each in left}
    if not targets or targets[-1] is None or targets[-1].offer.key in left_offers:
        yield Violation(13, f"job {timeline.job_id} migrated back to an old offer, or without a better offer")
