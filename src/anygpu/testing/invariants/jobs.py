"""1: every accepted job has exactly one end, the right one. 7: one key, one job. 11: nobody starves."""

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
from anygpu.testing.invariants.story import Story, Violation
from anygpu.testing.scenario import PATIENT
from anygpu.testing.sim_training import Script
from anygpu.testing.world import World

Stories = Mapping[str, Story]
STARTING_S = 60.0  # for the machines of others to end


def check(world: World, stories: Stories) -> Iterator[Violation]:
    yield from _accepted(world, stories)
    for story in stories.values():
        yield from _end(world, story)
        yield from _outcome(world, story)
    yield from _keys(world)
    yield from _starving(world, stories)


def _accepted(world: World, stories: Stories) -> Iterator[Violation]:
    for record in (client.record for client in world.clients):
        lost = [job_id for job_id in record.job_ids if job_id not in stories]
        if lost:
            yield Violation(1, f"jobs {lost} were accepted and are unknown")
        elif record.cancel_acked and not stories[record.job_ids[0]].of_any((CancelRequested, *TERMINAL)):
            yield Violation(1, f"the cancellation of job {record.job_ids[0]} was acknowledged and is lost")


def _end(world: World, story: Story) -> Iterator[Violation]:
    ends = story.of_any(TERMINAL)
    if len(ends) != 1:
        phase = world.witness.views[story.job_id].phase
        yield Violation(1, f"job {story.job_id} has {len(ends)} ends; it is in {phase}")
    elif [c for c in story.commits if not isinstance(c.recorded.event, AFTERWARDS)][-1].at > ends[0].at:
        yield Violation(1, f"job {story.job_id} went on after its end")
    elif story.of(CancelRequested) and not isinstance(ends[0].event, JobCancelled):
        yield Violation(1, f"job {story.job_id} was to be cancelled; {ends[0].event}")


def _outcome(world: World, story: Story) -> Iterator[Violation]:
    """The end is the one that the script and the spec ask for."""
    view = world.witness.views[story.job_id]
    script = Script.read(view.spec.env)
    for failed in story.of(JobFailed):
        if not _is_due(failed.event.failure, view, script):
            yield Violation(1, f"job {story.job_id} failed for no good reason: {failed.event.failure}")
    ended = story.of(AttemptEnded)
    if story.of(JobCompleted) and not any(told.event.exit_code == 0 for told in ended):
        yield Violation(1, f"job {story.job_id} is called completed, and no attempt succeeded")
    for wrong in (told for told in ended if told.event.exit_code == 1):
        if any(launch.at > wrong.at for launch in story.of(AttemptLaunching)):
            yield Violation(1, f"job {story.job_id} was tried again after its script had failed")


def _is_due(failure: Failure, view: JobView, script: Script) -> bool:
    limits = view.spec.limits
    if failure.blame is Blame.USER:
        return bool(script.fails_at)
    if failure.blame is Blame.PLATFORM:
        return (limits.max_cost_microusd if failure.code == "budget" else limits.timeout_s) is not None
    if failure.blame is Blame.PREEMPTION and failure.code != "handover":
        return False
    return view.retries_used >= limits.max_retries


def _keys(world: World) -> Iterator[Violation]:
    first: dict[str, str] = {}
    for recorded in (commit.recorded for commit in world.witness.commits):
        key = recorded.event.spec.idempotency_key if isinstance(recorded.event, JobSubmitted) else None
        if key is not None and first.setdefault(key, recorded.job_id) != recorded.job_id:
            yield Violation(7, f"{key} was accepted as two jobs")
    for record in (client.record for client in world.clients):
        if record.key is not None and len(set(record.job_ids)) > 1:
            yield Violation(7, f"{record.key} was answered with {record.job_ids}")


def _starving(world: World, stories: Stories) -> Iterator[Violation]:
    """A job that waits among others that keep coming, and that some would always overtake."""
    policy = world.scenario.policy
    for record in (client.record for client in world.clients):
        if record.key != PATIENT or not record.job_ids or record.job_ids[0] not in stories:
            continue
        story = stories[record.job_ids[0]]
        started = next((told.at for told in story.of(AttemptLaunching)), float("inf"))
        waited_s = started - story.commits[0].at
        if waited_s > policy.patience_s + policy.sharing.starved_s + STARTING_S:
            yield Violation(11, f"job {story.job_id} waited {waited_s:.0f} s for a place")
