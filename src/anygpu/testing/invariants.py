"""What must hold after every history, checked against the provider's books and what agents and people wrote down.

The numbers are those of the design: 1 one end, 2 one committer, 3 nothing left billing, 6 the newest checkpoint,
7 one job for one key, 8 nothing acknowledged is lost or doubled, 10 the fold repeats, 11 nobody starves.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from anygpu.events.facts import Blame, CheckpointRef
from anygpu.events.fold import fold
from anygpu.events.types import (
    TERMINAL,
    ArtifactSaved,
    AttemptEnded,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    CancelRequested,
    CheckpointRejected,
    CheckpointSaved,
    JobCancelled,
    JobCompleted,
    JobFailed,
    JobSubmitted,
)
from anygpu.events.view import JobView
from anygpu.testing.provider import Machine
from anygpu.testing.records import AgentRecord
from anygpu.testing.scenario import PATIENT
from anygpu.testing.sim_client import SCOPE
from anygpu.testing.sim_training import Script
from anygpu.testing.witness import CONTROL_FACTS, Commit
from anygpu.testing.world import World

ORPHAN_S = 200.0  # a machine nobody owns is ended within this, once the faults are over
LATE_EFFECT_S = 40.0  # lists lag: what was launched this shortly before cannot be seen yet


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: int
    text: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.text}"


@dataclass(slots=True)
class Story:
    """What the store holds of one job, with the times at which it was written."""

    job_id: str
    commits: list[Commit]

    def of(self, *kinds: type) -> list[Commit]:
        return [commit for commit in self.commits if isinstance(commit.recorded.event, kinds)]


async def violations(world: World) -> list[Violation]:
    stories = _stories(world)
    found = [*_ends(world, stories), *_machines(world, stories), *_keys(world), *_starving(world, stories)]
    for story in stories.values():
        found += [*_outcomes(world, story), *_commits(story), *_resumes(world, story)]
    found += [*_leaders(world), *_overlaps(world), *_agents(world, stories)]
    found += [violation async for violation in _stored(world, stories)]
    return found


def _stories(world: World) -> dict[str, Story]:
    stories: dict[str, Story] = {}
    for commit in world.witness.commits:
        job_id = commit.recorded.job_id
        stories.setdefault(job_id, Story(job_id, [])).commits.append(commit)
    return stories


# -- 1: exactly one terminal state, never changed --------------------------------------------------------------


def _ends(world: World, stories: dict[str, Story]) -> Iterator[Violation]:
    for client in world.clients:
        for job_id in client.record.job_ids:
            if job_id not in stories:
                yield Violation(1, f"job {job_id} was accepted and is unknown")
    for story in stories.values():
        ends = story.of(*TERMINAL)
        if len(ends) != 1:
            yield Violation(1, f"job {story.job_id} has {len(ends)} ends; {world.witness.views[story.job_id].phase}")
        elif story.commits[-1] is not ends[0]:
            yield Violation(1, f"job {story.job_id} went on after its end")
        elif story.of(CancelRequested) and not isinstance(ends[0].recorded.event, JobCancelled):
            yield Violation(1, f"job {story.job_id} was to be cancelled and {ends[0].recorded.event}")
    for client in world.clients:
        for job_id in client.record.job_ids[:1] if client.record.cancel_acked else []:
            if not stories[job_id].of(CancelRequested, *TERMINAL):
                yield Violation(1, f"the cancellation of job {job_id} was acknowledged and is lost")


def _outcomes(world: World, story: Story) -> Iterator[Violation]:
    """The end is the one the script and the spec ask for."""
    view = world.witness.views[story.job_id]
    script = Script.read(view.spec.env)
    for commit in story.of(JobFailed):
        failure = commit.recorded.event.failure  # type: ignore[attr-defined]
        if not _is_due(failure.blame, view, script):
            yield Violation(1, f"job {story.job_id} failed for no good reason: {failure}")
    outcomes = [c.recorded.event for c in story.of(AttemptEnded)]
    if story.of(JobCompleted) and not any(e.exit_code == 0 for e in outcomes):  # type: ignore[attr-defined]
        yield Violation(1, f"job {story.job_id} is called completed, and no attempt succeeded")
    wrong = [c.at for c in story.of(AttemptEnded) if c.recorded.event.exit_code == 1]  # type: ignore[attr-defined]
    if wrong and any(c.at > wrong[0] for c in story.of(AttemptLaunching)):
        yield Violation(1, f"job {story.job_id} was tried again after its script had failed")


def _is_due(blame: Blame, view: JobView, script: Script) -> bool:
    if blame is Blame.USER:
        return bool(script.fails_at)
    if blame is Blame.PLATFORM:
        return view.spec.limits.timeout_s is not None
    return blame is not Blame.PREEMPTION and view.retries_used >= view.spec.limits.max_retries


# -- 2: one committer -------------------------------------------------------------------------------------------


def _commits(story: Story) -> Iterator[Violation]:
    live, number = False, 0
    for commit in story.commits:
        event = commit.recorded.event
        if isinstance(event, AttemptLaunching):
            if live:
                yield Violation(2, f"job {story.job_id}: attempt {event.attempt} beside a live one")
            live, number = True, event.attempt
        elif isinstance(event, CheckpointSaved | ArtifactSaved | AttemptEnded | AttemptLost):
            if not live or event.attempt != number:
                yield Violation(2, f"job {story.job_id}: {type(event).__name__} of attempt {event.attempt}")
            live = live and not isinstance(event, AttemptEnded | AttemptLost)


def _leaders(world: World) -> Iterator[Violation]:
    for commit in world.witness.commits:
        if isinstance(commit.recorded.event, CONTROL_FACTS) and commit.process != commit.leader:
            kind = type(commit.recorded.event).__name__
            yield Violation(2, f"{commit.process} wrote {kind} at {commit.at:.1f} while {commit.leader} led")


def _overlaps(world: World) -> Iterator[Violation]:
    """No two agents train the same job at once, unless a machine stood still and could not know better."""
    by_job: dict[str, list[AgentRecord]] = defaultdict(list)
    for record in world.habitat.records:
        if record.trained_from is not None and not record.stood_still:
            by_job[record.job_id].append(record)
    for job_id, records in by_job.items():
        records.sort(key=lambda record: record.trained_from or 0)
        for before, after in zip(records, records[1:], strict=False):
            until = float("inf") if before.trained_until is None else before.trained_until
            if until > (after.trained_from or 0):
                yield Violation(2, f"job {job_id} trained on {before.machine} and {after.machine} at once")


# -- 3: nothing is left billing ---------------------------------------------------------------------------------


def _machines(world: World, stories: dict[str, Story]) -> Iterator[Violation]:
    owners = {
        commit.recorded.event.name: (story, commit)
        for story in stories.values()
        for commit in story.of(AttemptLaunching)
        if isinstance(commit.recorded.event, AttemptLaunching)
    }
    for machine in (machine for provider in world.providers for machine in provider.books):
        if machine.name not in owners or owners[machine.name][1].at > machine.launched:
            yield Violation(3, f"{machine.id} was launched before the intent {machine.name} was written")
        else:
            yield from _machine(world, machine, *owners[machine.name])


def _machine(world: World, machine: Machine, story: Story, intent: Commit) -> Iterator[Violation]:
    ended = float("inf") if machine.ended is None else machine.ended
    number = _attempt(intent)
    over = next((c.at for c in story.of(AttemptEnded, AttemptLost) if _attempt(c) == number), float("inf"))
    unowned_since = max(over, machine.launched, world.scenario.faults_until)
    if ended > unowned_since + ORPHAN_S:
        yield Violation(3, f"{machine.id} ({machine.name}) was not ended; its attempt was over at {over:.0f}")
    if machine.launched > over - LATE_EFFECT_S:
        return  # it came to be when nobody could know of it any more: the sweeper's work
    for commit in story.of(AttemptReleased, *TERMINAL):
        if ended > commit.at and _attempt(commit) in (number, None):
            what = type(commit.recorded.event).__name__
            yield Violation(3, f"{machine.id} ({machine.name}) was still billed at {what}")


def _attempt(commit: Commit) -> int | None:
    number: int | None = getattr(commit.recorded.event, "attempt", None)
    return number


# -- 6: resume from the newest valid checkpoint -----------------------------------------------------------------


def _resumes(world: World, story: Story) -> Iterator[Violation]:
    published: list[CheckpointRef] = []
    kept: list[CheckpointRef] = []
    keep = world.witness.views[story.job_id].spec.checkpoint.keep
    for commit in story.commits:
        event = commit.recorded.event
        if isinstance(event, CheckpointSaved) and event.checkpoint.id not in {c.id for c in published}:
            published.append(event.checkpoint)
            kept = [*kept, event.checkpoint][-keep:]
        elif isinstance(event, CheckpointRejected):
            rejected = [c for c in kept if c.id == event.checkpoint_id]
            kept = [c for c in kept if c.id != event.checkpoint_id]
            if any(world.rotted.get(c.manifest, float("inf")) > commit.at for c in rejected):
                yield Violation(6, f"job {story.job_id}: checkpoint {event.checkpoint_id} was rejected and is good")
        elif isinstance(event, AttemptLaunching):
            yield from _resume(world, commit, event, kept)


def _resume(
    world: World, commit: Commit, event: AttemptLaunching, kept: list[CheckpointRef]
) -> Iterator[Violation]:
    newest = kept[-1] if kept else None
    if event.resume is None or newest is None or event.resume.id != newest.id:
        if event.resume is not newest:
            yield Violation(6, f"{event.name} resumes from {_step(event.resume)}, not from {_step(newest)}")
    elif event.name in world.resumed_damaged and world.rotted[newest.manifest] < commit.at - 5:
        yield Violation(6, f"{event.name} resumes from a damaged checkpoint")


def _step(checkpoint: CheckpointRef | None) -> str:
    return "the beginning" if checkpoint is None else f"step {checkpoint.step}"


# -- 7: one key, one job ----------------------------------------------------------------------------------------


def _keys(world: World) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    for commit in world.witness.commits:
        event = commit.recorded.event
        key = event.spec.idempotency_key if isinstance(event, JobSubmitted) else None
        if key is not None and seen.setdefault(key, commit.recorded.job_id) != commit.recorded.job_id:
            yield Violation(7, f"{key} was accepted as two jobs")
    for client in world.clients:
        if client.record.key is not None and len(set(client.record.job_ids)) > 1:
            yield Violation(7, f"{client.record.key} was answered with {client.record.job_ids}")


# -- 8: nothing acknowledged is lost or doubled -------------------------------------------------------------------


def _agents(world: World, stories: dict[str, Story]) -> Iterator[Violation]:
    for record in world.habitat.records:
        story = stories.get(record.job_id)
        if story is None:
            continue
        if record.went_back_to is not None:
            yield Violation(8, f"{record.name} had to go back to frame {record.went_back_to}")
        saved = {c.recorded.event.checkpoint.id for c in story.of(CheckpointSaved)}  # type: ignore[attr-defined]
        for step, checkpoint_id in record.saved:
            if checkpoint_id not in saved:
                yield Violation(8, f"the checkpoint of step {step} of {record.name} was acknowledged and is lost")
        ends = {c.recorded.event.attempt for c in story.of(AttemptEnded)}  # type: ignore[attr-defined]
        if record.end_acked and record.attempt not in ends:
            yield Violation(8, f"the end of {record.name} was acknowledged and is lost")
        if record.restored_step is not None and record.resume is not None:
            if record.restored_step != record.resume["step"]:
                yield Violation(6, f"{record.name} was given the bytes of another step")


async def _stored(world: World, stories: dict[str, Story]):  # type: ignore[no-untyped-def]
    journal, evidence = world.new_journal(), world.new_evidence()
    truth = list(await journal.events(SCOPE, after=0, limit=1_000_000))
    if truth != [commit.recorded for commit in world.witness.commits]:
        yield Violation(8, "the journal does not hold what was committed, in that order")
    if truth[: len(world.follower.shown)] != world.follower.shown:
        yield Violation(8, "a follower was shown what the journal does not hold")
    if [recorded.position for recorded in truth] != list(range(1, len(truth) + 1)):
        yield Violation(8, "the journal has a gap")
    for job_id in stories:
        history = await journal.events(SCOPE, after=0, limit=1_000_000, job_id=job_id)
        if fold(history) != await journal.view(SCOPE, job_id):
            yield Violation(10, f"folding job {job_id} again gives another state")
    for record in world.habitat.records:
        if record.job_id:
            async for violation in _frames(evidence, record, stories[record.job_id]):
                yield violation


async def _frames(evidence, record: AgentRecord, story: Story):  # type: ignore[no-untyped-def]
    """Everything acknowledged is there, once, in order; more may be, when only the answer was lost."""
    log = await evidence.log(record.job_id, record.attempt, offset=0, limit=1 << 20)
    points, _ = await evidence.points(record.job_id, record.attempt, after=0, limit=1 << 20)
    sent_log = b"".join(frame.log for frame in record.frames)
    sent_points = [frame.point for frame in record.frames if frame.point is not None]
    acked = record.frames[: record.acked]
    if not sent_log.startswith(log.data) or len(log.data) < sum(len(frame.log) for frame in acked):
        yield Violation(8, f"the log of {record.name} is not what was acknowledged")
    if list(points) != sent_points[: len(points)] or len(points) < sum(f.point is not None for f in acked):
        yield Violation(8, f"the metrics of {record.name} are not what was acknowledged")
    for commit in story.of(AttemptEnded):
        event = commit.recorded.event
        if event.attempt == record.attempt and record.end_acked:
            marks = (event.marks.log_bytes, event.marks.metric_points)
            if marks != (len(sent_log), len(sent_points)):
                yield Violation(8, f"{record.name} ended before its frames: {marks}")


# -- 11: nobody starves -------------------------------------------------------------------------------------------


def _starving(world: World, stories: dict[str, Story]) -> Iterator[Violation]:
    """A job that waits among others that keep coming, and that some would always overtake."""
    policy = world.scenario.policy
    for job_id in (c.record.job_ids[0] for c in world.clients if c.record.key == PATIENT and c.record.job_ids):
        launches = stories[job_id].of(AttemptLaunching)
        waited_s = (launches[0].at if launches else float("inf")) - stories[job_id].commits[0].at
        if waited_s > policy.patience_s + 2 * policy.aging_s + 60:
            yield Violation(11, f"job {job_id} waited {waited_s:.0f} s for a place")
