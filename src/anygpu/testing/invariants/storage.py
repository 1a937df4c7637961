"""Invariants 8 (no confirmed data is lost or duplicated) and 10 (computing a state again gives the same state)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from anygpu.events.fold import Recorded, fold
from anygpu.events.types import AttemptEnded, CheckpointSaved, NodeEnded
from anygpu.store.reports import MetricPoint, report_number
from anygpu.testing.invariants.timeline import JobTimeline, Violation
from anygpu.testing.simulation.client import SCOPE
from anygpu.testing.simulation.records import AgentRecord
from anygpu.testing.simulation.world import SimWorld

ALL = 1 << 20


async def check(world: SimWorld, timelines: Mapping[str, JobTimeline]) -> list[Violation]:
    journal, reports = world.new_journal(), world.new_reports()
    broken: list[Violation] = []
    for project in sorted({job.project for job in world.scenario.jobs}):
        truth = await journal.events(replace(SCOPE, project=project), after=0, limit=ALL)
        broken += _events(world, project, truth)
    for job_id, timeline in timelines.items():
        scope = replace(SCOPE, project=timeline.commits[0].recorded.project)
        try:
            again = fold(await journal.events(scope, after=0, limit=ALL, job_id=job_id))
            same = again == await journal.view(scope, job_id)
        except Exception as error:  # noqa: BLE001  whatever damaged data causes
            broken.append(Violation(10, f"job {job_id} cannot be read: {error!r}"))
        else:
            broken += [] if same else [Violation(10, f"folding job {job_id} again gives a different state")]
    for record in (record for record in world.environment.records if record.job_id in timelines):
        number = report_number(record.attempt, record.node)
        log = await reports.log(record.job_id, number, offset=0, limit=ALL)
        points, _ = await reports.points(record.job_id, number, after=0, limit=ALL)
        broken += [*_frames(record, log.data, points), *_commits(record, timelines[record.job_id])]
    return broken


def _events(world: SimWorld, project: str, truth: Sequence[Recorded]) -> Iterator[Violation]:
    written = (commit.recorded for commit in world.recorder.commits)
    if _intact(world, truth) != _intact(world, (one for one in written if one.project == project)):
        yield Violation(8, "the journal does not contain the committed events in the order of their commits")
    shown = world.follower.received if project == SCOPE.project else []
    if _intact(world, truth[: len(shown)]) != _intact(world, shown):
        yield Violation(8, "a follower received events that the journal does not contain")
    if [recorded.position for recorded in truth] != list(range(1, len(truth) + 1)):
        yield Violation(8, "the positions in the journal have a gap")


def _intact(world: SimWorld, recorded: Iterable[Recorded]) -> list[Recorded]:
    return [one for one in recorded if one.job_id not in world.damaged_jobs]


def _frames(record: AgentRecord, log: bytes, points: Sequence[MetricPoint]) -> Iterator[Violation]:
    """Yield a violation if a confirmed frame (numbered report) is not stored exactly once and in order.

    More frames than the confirmed ones may be stored, because the confirmation may have been lost.
    """
    acked = record.frames[: record.acked]
    if not record.log.startswith(log) or len(log) < sum(len(frame.log) for frame in acked):
        yield Violation(8, f"the log of {record.name} differs from what was acknowledged")
    most = sum(frame.point is not None for frame in acked)
    if list(points) != record.points[: len(points)] or len(points) < most:
        yield Violation(8, f"the metrics of {record.name} differ from what was acknowledged")
    if record.went_back_to is not None:
        yield Violation(
            8, f"{record.name} had to send acknowledged frames again, from frame {record.went_back_to}"
        )


def _commits(record: AgentRecord, timeline: JobTimeline) -> Iterator[Violation]:
    saved = {entry.event.checkpoint.id for entry in timeline.events(CheckpointSaved)}
    for step, checkpoint_id in record.saved:
        if checkpoint_id not in saved:
            yield Violation(
                8, f"the checkpoint of step {step} of {record.name} was acknowledged but not recorded"
            )
    if not record.end_acked:
        return
    ends = [entry.event for entry in timeline.events(AttemptEnded) if entry.event.attempt == record.attempt]
    if record.nodes > 1:
        nodes = [entry.event for entry in timeline.events(NodeEnded)]
        if not any((event.attempt, event.node) == (record.attempt, record.node) for event in nodes):
            yield Violation(
                8,
                f"the end of node {record.node} of {record.name} was acknowledged but is not in the journal",
            )
        ends = ends if record.node == 0 else []
    elif not ends:
        yield Violation(8, f"the end of {record.name} was acknowledged but is not in the journal")
    for marks in (event.marks for event in ends):
        if (marks.log_bytes, marks.metric_points) != (len(record.log), len(record.points)):
            yield Violation(8, f"{record.name} ended before all its reports were stored: {marks}")
