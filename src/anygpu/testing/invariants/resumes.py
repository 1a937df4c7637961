"""Invariant 15: a resume is claimed only if it happened; a restart is recorded, with the work that it lost.

A job that restarted from the beginning is not put on interruptible machines again without its consent, and is
not stopped to continue elsewhere.
"""

from collections.abc import Iterator, Mapping

from anygpu.control.reconcile.verdict import MIGRATION_REASON
from anygpu.events.types import (
    AttemptLaunching,
    CheckpointRejected,
    JobCompleted,
    RecoveryStarted,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
)
from anygpu.events.view import AttemptView, JobView
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.records import AgentRecord
from anygpu.testing.simulation.world import SimWorld

CLOCK_ERROR_S = 1.0


def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    records = {
        (r.job_id, r.attempt): r
        for r in world.environment.records
        if r.began_after is not None and r.node == 0
    }
    for job_id, timeline in timelines.items():
        view = world.recorder.views[job_id]
        for attempt in view.attempts:
            record = records.get((job_id, attempt.number))
            if record is not None:
                yield from _check_claim(view, attempt, record)
        yield from _check_interruptions(view, timeline)
        if world.clock.jumped_ms == 0:
            yield from _check_work_lost(view, timeline)


def _check_claim(view: JobView, attempt: AttemptView, record: AgentRecord) -> Iterator[Violation]:
    if attempt.resumed and not record.began_after:
        yield Violation(15, f"{record.name} started from the beginning, but counts as resumed")
    if attempt.resumed is False and record.began_after:
        yield Violation(15, f"{record.name} resumed, but counts as restarted")
    if attempt.resumed is not None and not SimScript.read(view.spec.env).reports:
        yield Violation(15, f"{record.name} reports no steps, but its resume counts as known")
    # Reports are complete once the end is acknowledged. A checkpoint at step 1 does not tell the two cases apart.
    complete = record.end_acked is not None and any(frame.progress for frame in record.frames)
    restarted = attempt.resume is not None and attempt.resume.step > 1 and record.began_after == 0
    if complete and restarted and attempt.resumed is None:
        yield Violation(15, f"{record.name} restarted from the beginning, which was not recorded")


def _check_interruptions(view: JobView, timeline: JobTimeline) -> Iterator[Violation]:
    """Yield a violation if a job was interrupted, or may be, although nothing shows that it resumes."""
    resumes = bool(view.spec.checkpoint.resume_args)
    automatic = view.spec.placement.interruptible == "auto"
    for event in (commit.recorded.event for commit in timeline.commits):
        if isinstance(event, TrainingResumed | TrainingRestarted):
            resumes = isinstance(event, TrainingResumed)
        elif isinstance(event, AttemptLaunching) and event.offer.interruptible and automatic and not resumes:
            yield Violation(15, f"{event.name} is on an interruptible machine, but the job does not resume")
        elif isinstance(event, StopRequested) and not resumes and _is_voluntary(event):
            yield Violation(15, f"job {view.id} was stopped to continue elsewhere, but does not resume")


def _is_voluntary(stop: StopRequested) -> bool:
    return bool(stop.makes_room_for) or stop.reason == MIGRATION_REASON


def _check_work_lost(view: JobView, timeline: JobTimeline) -> Iterator[Violation]:
    """Yield a violation if a job that restarted in its last attempt has not lost all its earlier training."""
    if not timeline.events(JobCompleted) or view.attempts[-1].resumed is not False:
        return
    trained_s = sum(
        (attempt.ended_at_ms - attempt.training_at_ms) / 1000
        for attempt in view.attempts[:-1]
        if attempt.training_at_ms is not None and attempt.ended_at_ms is not None
    )
    if abs(view.work_lost_s - trained_s) > CLOCK_ERROR_S:
        events = timeline.events_of((RecoveryStarted, TrainingRestarted, CheckpointRejected))
        yield Violation(
            15, f"job {view.id} lost {trained_s:.0f} s of work, not {view.work_lost_s:.0f} s: {events}"
        )
