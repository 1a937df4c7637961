"""Invariants 2 (of each job, one attempt at a time runs and commits) and 12 (no healthy attempt is declared lost).

Invariant 2 also says that only the control process that holds the lease writes the events of the control loop.
"""

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
    Event,
    StopRequested,
)
from anygpu.testing.invariants.timeline import JobTimeline, TimedEvent, Violation
from anygpu.testing.simulation.providers.provider import SimMachine
from anygpu.testing.simulation.records import CONTROL_FACTS, AgentRecord
from anygpu.testing.simulation.world import SimWorld

IN_FLIGHT_S = 3.0  # an answer this recent may have been sent after the decision


def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    for timeline in timelines.values():
        yield from _commits(timeline)
    yield from _leaders(world)
    yield from _overlaps(world)
    yield from _hasty_losses(world, timelines)


def _commits(timeline: JobTimeline) -> Iterator[Violation]:
    live: int | None = None
    for event in (commit.recorded.event for commit in timeline.commits):
        if isinstance(event, AttemptLaunching):
            if live is not None:
                yield Violation(
                    2,
                    f"job {timeline.job_id}: attempt {event.attempt} started while another attempt was live",
                )
            live = event.attempt
        elif isinstance(event, CheckpointSaved | ArtifactSaved | AttemptEnded | AttemptLost):
            if event.attempt != live:
                yield Violation(
                    2,
                    f"job {timeline.job_id}: {type(event).__name__} of attempt {event.attempt}, which was not live",
                )
            if isinstance(event, AttemptEnded | AttemptLost):
                live = None


def _leaders(world: SimWorld) -> Iterator[Violation]:
    for commit in world.recorder.commits:
        if _is_leaving_node(commit.recorded.event):
            continue
        if isinstance(commit.recorded.event, CONTROL_FACTS) and commit.process != commit.leader:
            kind = type(commit.recorded.event).__name__
            yield Violation(
                2, f"{commit.process} wrote {kind} at {commit.at:.1f} while {commit.leader} was the leader"
            )


def _is_leaving_node(event: Event) -> bool:
    """Return whether an agent requested the stop: any server records that a node is being preempted."""
    return isinstance(event, StopRequested) and event.message.startswith("node ")


def _overlaps(world: SimWorld) -> Iterator[Violation]:
    """Yield a violation if two agents train a job at the same time. Agents on paused machines are ignored."""
    by_node: dict[tuple[str, int], list[tuple[float, float, str]]] = defaultdict(list)
    by_attempt: dict[str, dict[int, list[AgentRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in world.environment.records:
        if record.trained_from is not None and not record.was_paused:
            span = (record.trained_from, _until(record), record.machine)
            by_node[record.job_id, record.node].append(span)
            by_attempt[record.job_id][record.attempt].append(record)
    for (job_id, _), spans in by_node.items():
        for (_, until, one), (start, _, other) in pairwise(sorted(spans)):
            if until > start:
                yield Violation(2, f"job {job_id} trained on {one} and {other} at the same time")
    for job_id, attempts in by_attempt.items():
        for (before, first), (after, second) in pairwise(sorted(attempts.items())):
            if max(map(_until, first)) > min(record.trained_from or 0.0 for record in second):
                yield Violation(2, f"job {job_id}: attempts {before} and {after} trained at the same time")


def _until(record: AgentRecord) -> float:
    return float("inf") if record.trained_until is None else record.trained_until


def _hasty_losses(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    """Yield a violation for each attempt that was declared lost although the server had just answered its agent.

    Attempts for which the provider started more than one machine are ignored.
    """
    books = [machine for provider in world.providers for machine in provider.machines]
    names = Counter(machine.name for machine in books)
    machines = {machine.name: machine for machine in books if names[machine.name] == 1}
    patience_s = world.scenario.policy.lease_s / 2
    for record in (
        record
        for record in world.environment.records
        if record.name in machines and record.job_id in timelines
    ):
        for lost in timelines[record.job_id].events(AttemptLost):
            mine = lost.event.attempt == record.attempt and lost.event.failure.blame is Blame.INFRASTRUCTURE
            if mine and _was_healthy(record, machines[record.name], lost, patience_s):
                yield Violation(
                    12, f"{record.name} was healthy when it was declared lost: {lost.event.evidence}"
                )


def _was_healthy(
    record: AgentRecord, machine: SimMachine, lost: TimedEvent[AttemptLost], patience_s: float
) -> bool:
    there = (machine.ended_at is None or machine.ended_at > lost.at) and not machine.exited
    return there and any(lost.at - patience_s < at < lost.at - IN_FLIGHT_S for at in record.answered_at)
