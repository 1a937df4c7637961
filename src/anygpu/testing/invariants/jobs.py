"""Invariants 1 (every accepted job has one correct end), 7 (one job for each key) and 11 (no job starves)."""

from collections.abc import Iterator, Mapping

from anygpu.events.facts import Blame, Failure
from anygpu.events.types import (
    AFTERWARDS,
    TERMINAL,
    AttemptEnded,
    AttemptLaunching,
    CancelRequested,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobSubmitted,
)
from anygpu.events.view import JobView
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.agents.training import SimScript
from anygpu.testing.simulation.scenario import PATIENT_KEY
from anygpu.testing.simulation.world import SimWorld

Stories = Mapping[str, JobTimeline]
OUTAGE_CODE = "backend_unavailable"
STARTING_S = 60.0  # allowance for the machines of other jobs to end


def check(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    yield from _lost_requests(world, timelines)
    for timeline in timelines.values():
        yield from _end(world, timeline)
        yield from _outcome(world, timeline)
    yield from _keys(world)
    yield from _starving(world, timelines)


def _lost_requests(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    for record in (client.record for client in world.clients):
        if any(job_id in world.damaged_jobs for job_id in record.job_ids):
            continue
        lost = [job_id for job_id in record.job_ids if job_id not in timelines]
        if lost:
            yield Violation(1, f"jobs {lost} were accepted but are not in the journal")
        elif record.cancel_acked and not timelines[record.job_ids[0]].events_of((CancelRequested, *TERMINAL)):
            yield Violation(1, f"the cancellation of job {record.job_ids[0]} was acknowledged but not stored")


def _end(world: SimWorld, timeline: JobTimeline) -> Iterator[Violation]:
    ends = timeline.events_of(TERMINAL)
    if len(ends) != 1:
        phase = world.recorder.views[timeline.job_id].phase
        yield Violation(1, f"job {timeline.job_id} has {len(ends)} terminal events; its phase is {phase}")
    elif [c for c in timeline.commits if not isinstance(c.recorded.event, AFTERWARDS)][-1].at > ends[0].at:
        yield Violation(1, f"job {timeline.job_id} has events after its terminal event")
    elif timeline.events(CancelRequested) and not isinstance(ends[0].event, JobCancelled):
        yield Violation(1, f"job {timeline.job_id} was cancelled, but ended with {ends[0].event}")


def _outcome(world: SimWorld, timeline: JobTimeline) -> Iterator[Violation]:
    """Yield a violation if the job's end does not follow from its script and spec."""
    view = world.recorder.views[timeline.job_id]
    script = SimScript.read(view.spec.env)
    for failed in timeline.events(JobFailed):
        if not _is_expected(failed.event.failure, view, script):
            yield Violation(1, f"job {timeline.job_id} failed without a valid reason: {failed.event.failure}")
    ended = timeline.events(AttemptEnded)
    if timeline.events(JobCompleted) and not any(entry.event.exit_code == 0 for entry in ended):
        yield Violation(1, f"job {timeline.job_id} is completed, but no attempt succeeded")
    for wrong in (entry for entry in ended if entry.event.exit_code == 1):
        if any(launch.at > wrong.at for launch in timeline.events(AttemptLaunching)):
            yield Violation(1, f"job {timeline.job_id} was retried after its script had failed")


def _is_expected(failure: Failure, view: JobView, script: SimScript) -> bool:
    limits = view.spec.limits
    if failure.blame is Blame.USER:
        return bool(script.fails_at)
    if failure.blame is Blame.PLATFORM:
        return (limits.max_cost_microusd if failure.code == "budget" else limits.timeout_s) is not None
    if failure.blame is Blame.PREEMPTION and failure.code != "handover":
        return False
    # A job waits while its backend cannot be reached.
    return failure.code != OUTAGE_CODE and view.retries_used >= limits.max_retries


def _keys(world: SimWorld) -> Iterator[Violation]:
    first: dict[str, str] = {}
    for recorded in (commit.recorded for commit in world.recorder.commits):
        key = recorded.event.spec.idempotency_key if isinstance(recorded.event, JobSubmitted) else None
        if key is not None and first.setdefault(key, recorded.job_id) != recorded.job_id:
            yield Violation(7, f"two jobs were created for the idempotency key {key}")
    for record in (client.record for client in world.clients):
        if record.key is not None and len(set(record.job_ids)) > 1:
            yield Violation(
                7, f"requests with the idempotency key {record.key} were answered with {record.job_ids}"
            )


def _starving(world: SimWorld, timelines: Stories) -> Iterator[Violation]:
    """Yield a violation if the job with the key PATIENT_KEY waited too long while other jobs were submitted."""
    policy = world.scenario.policy
    for record in (client.record for client in world.clients):
        if record.key != PATIENT_KEY or not record.job_ids or record.job_ids[0] not in timelines:
            continue
        timeline = timelines[record.job_ids[0]]
        started = next((entry.at for entry in timeline.events(AttemptLaunching)), float("inf"))
        waited_s = started - timeline.commits[0].at
        if waited_s > policy.reserve_after_s + policy.sharing.starvation_s + STARTING_S:
            yield Violation(11, f"job {timeline.job_id} waited {waited_s:.0f} s for a machine")
