"""2: one attempt commits, one process leads, one agent trains. 12: no agent that is well is declared dead."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

from anygpu.events.facts import Blame
from anygpu.events.types import (
    ArtifactSaved,
    AttemptEnded,
    AttemptLaunching,
    AttemptLost,
    CheckpointSaved,
)
from anygpu.testing.invariants.story import Story, Told, Violation
from anygpu.testing.provider import Machine
from anygpu.testing.records import AgentRecord
from anygpu.testing.witness import CONTROL_FACTS
from anygpu.testing.world import World

UNDER_WAY_S = 3.0  # an answer this fresh may have crossed the decision


def check(world: World, stories: Mapping[str, Story]) -> Iterator[Violation]:
    for story in stories.values():
        yield from _commits(story)
    yield from _leaders(world)
    yield from _overlaps(world)
    yield from _hasty(world, stories)


def _commits(story: Story) -> Iterator[Violation]:
    live: int | None = None
    for event in (commit.recorded.event for commit in story.commits):
        if isinstance(event, AttemptLaunching):
            if live is not None:
                yield Violation(2, f"job {story.job_id}: attempt {event.attempt} beside a live one")
            live = event.attempt
        elif isinstance(event, CheckpointSaved | ArtifactSaved | AttemptEnded | AttemptLost):
            if event.attempt != live:
                yield Violation(2, f"job {story.job_id}: {type(event).__name__} of attempt {event.attempt}")
            if isinstance(event, AttemptEnded | AttemptLost):
                live = None


def _leaders(world: World) -> Iterator[Violation]:
    for commit in world.witness.commits:
        if isinstance(commit.recorded.event, CONTROL_FACTS) and commit.process != commit.leader:
            kind = type(commit.recorded.event).__name__
            yield Violation(2, f"{commit.process} wrote {kind} at {commit.at:.1f} while {commit.leader} led")


def _overlaps(world: World) -> Iterator[Violation]:
    """No two agents train a job at once, unless a machine stood still and could not know better."""
    by_job: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for record in world.habitat.records:
        if record.trained_from is not None and not record.stood_still:
            until = float("inf") if record.trained_until is None else record.trained_until
            by_job[record.job_id].append((record.trained_from, until, record.machine))
    for job_id, spans in by_job.items():
        for (_, until, one), (start, _, other) in pairwise(sorted(spans)):
            if until > start:
                yield Violation(2, f"job {job_id} trained on {one} and {other} at once")


def _hasty(world: World, stories: Mapping[str, Story]) -> Iterator[Violation]:
    """An agent that was answered a moment ago, on the one machine that is there, is not lost."""
    books = [machine for provider in world.providers for machine in provider.books]
    names = Counter(machine.name for machine in books)
    machines = {machine.name: machine for machine in books if names[machine.name] == 1}
    patience_s = world.scenario.policy.lease_s / 2
    for record in (record for record in world.habitat.records if record.name in machines and record.job_id):
        for lost in stories[record.job_id].of(AttemptLost):
            mine = lost.event.attempt == record.attempt and lost.event.failure.blame is Blame.INFRASTRUCTURE
            if mine and _was_well(record, machines[record.name], lost, patience_s):
                yield Violation(12, f"{record.name} was well when declared dead: {lost.event.evidence}")


def _was_well(record: AgentRecord, machine: Machine, lost: Told[AttemptLost], patience_s: float) -> bool:
    there = (machine.ended is None or machine.ended > lost.at) and not machine.exited
    return there and any(lost.at - patience_s < at < lost.at - UNDER_WAY_S for at in record.heard_at)
