"""Invariant 16: the processes of an attempt on several nodes start on all nodes or on none, and stop together."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from anygpu.events.types import AttemptEnded, AttemptLost
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.records import AgentRecord
from anygpu.testing.simulation.world import SimWorld

ANSWER_S = 30.0  # a request may take this long, and be repeated


def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> Iterator[Violation]:
    attempts: dict[tuple[str, int], list[AgentRecord]] = defaultdict(list)
    for record in world.environment.records:
        if record.nodes > 1 and record.job_id in timelines:
            attempts[record.job_id, record.attempt].append(record)
    for (job_id, number), records in attempts.items():
        yield from _common_start(records)
        yield from _common_stop(world, timelines[job_id], number, records)


def _common_start(records: list[AgentRecord]) -> Iterator[Violation]:
    started = [record.trained_from for record in records if record.trained_from is not None]
    if not started:
        return
    ready = {record.node for record in records if record.ready_at and record.ready_at <= min(started)}
    missing = set(range(records[0].nodes)) - ready
    if missing:
        yield Violation(16, f"{records[0].name} started although nodes {sorted(missing)} were not ready")


def _common_stop(
    world: SimWorld, timeline: JobTimeline, number: int, records: list[AgentRecord]
) -> Iterator[Violation]:
    """Yield a violation for a node that trains long after another node failed, or after the attempt was over.

    A node that cannot reach the server stops when its lease ends. Nodes on paused machines are ignored.
    """
    ends = [(entry.at, entry.event.attempt) for entry in timeline.events(AttemptEnded)]
    losses = [(entry.at, entry.event.attempt) for entry in timeline.events(AttemptLost)]
    over = [at for at, attempt in (*ends, *losses) if attempt == number]
    failed = [record.failed_at for record in records if record.failed_at is not None]
    if not over and not failed:
        return
    policy = world.scenario.policy
    latest = min([*over, *failed]) + policy.lease_s + policy.grace_s + ANSWER_S
    for record in records:
        until = record.trained_until
        if record.trained_from is None or record.was_paused:
            continue
        if until is None or until > latest:
            yield Violation(
                16, f"node {record.node} of {record.name} trained on after another node had ended"
            )
