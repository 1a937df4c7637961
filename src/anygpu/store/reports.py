"""Interface of the store for what agents report: metrics, logs, progress, telemetry and heartbeats."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from anygpu.events.facts import Marks
from anygpu.store.logs.page import LinePage
from anygpu.store.logs.search import LogPattern, SearchPortion


class MetricPoint(NamedTuple):
    """One value of one metric."""

    name: str
    step: int  # within the range of anygpu.bounds
    at: float  # unix seconds by the agent's clock; never used for decisions
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """The frames (numbered reports) `first` to `last` of an attempt, parsed and validated."""

    first: int
    last: int
    logs: Sequence[tuple[int, bytes]] = ()  # (seq, bytes)
    points: Sequence[tuple[int, Sequence[MetricPoint]]] = ()  # (seq, points)
    progress: Mapping[str, Any] | None = None  # the newest value
    telemetry: Sequence[tuple[int, Mapping[str, Any]]] = ()
    phases: Sequence[tuple[int, str]] = ()
    dropped: Sequence[tuple[int, int]] = ()  # (seq, number of invalid points)


@dataclass(frozen=True, slots=True, kw_only=True)
class MainMetric:
    """The metric that a list shows of a job: its newest value, and the means of stretches of `width` points.

    When there are `MAX_POINTS` means, neighbours are joined and the width doubles.
    """

    MAX_POINTS: ClassVar[int] = 32

    name: str
    value: float = math.nan
    step: int = 0
    means: tuple[float, ...] = ()
    partial_sum: float = 0.0  # of the points that are not in a mean yet
    partial_count: int = 0
    width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportState:
    """The state of an attempt's reports: how much is stored, and the newest progress, phase and telemetry."""

    acked: int = 0  # highest stored sequence number
    beats: int = 0  # number of reports and heartbeats; a change shows that the agent is alive
    marks: Marks = field(default_factory=Marks)
    phase: str = ""  # the newest phase the agent reported
    progress: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    last_seen_ms: int = 0
    dropped_points: int = 0  # invalid, or beyond the limits of anygpu.bounds
    main_metric: MainMetric | None = None  # also has the points of earlier attempts


NODE_STRIDE = 1 << 20  # more than a job can have attempts


def report_number(attempt: int, node: int) -> int:
    """Return the number under which the reports of one node of an attempt are stored.

    Node 0 has the number of its attempt. Every method of `Reports` accepts this number as the attempt. So each node has
    a sequence of frames, a log and telemetry of its own. Only node 0 has metrics.
    """
    return attempt + node * NODE_STRIDE


LOG_QUOTA_BYTES = 256 * 2**20  # per job


def drop_order(number: int, droppable_bytes: int) -> tuple[int, int, int]:
    """Return a key that sorts the logs of a job in the order in which the quota drops bytes from them.

    Logs of the oldest attempt are first. Among the nodes of an attempt, the longest log is first, so that a node that
    prints much does not remove the newest lines of the others. `droppable_bytes`: the bytes behind the log's head.
    """
    node, attempt = divmod(number, NODE_STRIDE)
    return attempt, -droppable_bytes, -node


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSummary:
    """Number of points, lowest, highest and last value of one metric of an attempt."""

    name: str
    count: int
    min: float
    max: float
    last: float
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSamples:
    """Points of some metrics of an attempt, read at one moment.

    `counts` has the number of stored points of each metric; `cursor` is the number of stored points of all
    metrics, which is the cursor from which newer points follow.
    """

    points: Mapping[str, Sequence[MetricPoint]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    cursor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Bytes of a log from offset `start`.

    If the bytes at the requested offset were dropped because of the log quota, `start` is the first offset
    after the dropped bytes.
    """

    start: int
    data: bytes
    end: int  # current length of the log, dropped bytes included


class Reports(Protocol):
    """Stores metrics, logs, progress, telemetry and heartbeats by job and attempt.

    A report is stored once, under its own attempt, however late it arrives. The caller has already checked
    that the job is in scope. Metric points beyond the limits are dropped and counted. If the logs of a job
    exceed the quota, the first bytes (a quarter of the quota) and the newest bytes are kept; see `drop_order`. A
    report beyond a limit is not rejected, because the agent would send it again and never send the later reports.
    """

    async def ingest(self, job_id: str, attempt: int, batch: ReportBatch, *, at_ms: int) -> ReportState:
        """Store the frames (numbered reports) of the batch that are not stored yet, durably.

        Raises ReportGap(expected=…) if earlier frames are missing.
        """
        ...

    async def record_heartbeat(self, job_id: str, attempt: int, *, at_ms: int) -> ReportState: ...

    async def state(self, job_id: str, attempt: int) -> ReportState: ...

    async def states(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], ReportState]:
        """Return the state of every attempt in `keys`. An attempt that never reported has an empty state."""
        ...

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[MetricPoint], int]:
        """Return the points after the cursor `after`, in the order in which they were stored, and the next cursor.

        A cursor is the number of a point: 1 for the attempt's first stored point, and so on. 0 means the
        start.
        """
        ...

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]: ...

    async def samples(
        self,
        job_id: str,
        attempt: int,
        names: Sequence[str],
        *,
        max_count: int,
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> MetricSamples:
        """Return at most `max_count` points of each of these metrics, for charts. Unknown names are left out.

        With `from_step` or `to_step`, only points of these steps are returned (both ends included). The result
        has the first and the last point. The points in between are divided into ranges of equal length
        (buckets), and the result has the lowest and the highest point of each bucket, and its first NaN.
        """
        ...

    async def telemetry(
        self,
        job_id: str,
        attempt: int,
        *,
        max_count: int,
        from_s: float | None = None,
        to_s: float | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """Return at most `max_count` telemetry samples, evenly spaced, oldest first, including the newest.

        With `from_s` or `to_s`, only samples of this time are returned (Unix seconds by the clock of the machine).
        """
        ...

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Return at most `limit` bytes of a log from `offset`. A negative offset counts from the end."""
        ...

    async def log_lines(self, job_id: str, attempt: int, *, first: int, count: int) -> LinePage:
        """Return `count` lines of a log from line `first`, or fewer if they are long.

        The first line is 1, and a negative number counts from the end. Lines that the quota dropped are
        left out.
        """
        ...

    async def search_log(
        self,
        job_id: str,
        attempt: int,
        pattern: LogPattern,
        *,
        after: int | None,
        before: int | None,
        limit: int,
    ) -> SearchPortion:
        """Search a portion of a log: the lines after line `after`, or else backwards the lines before `before`."""
        ...

    async def delete(self, job_id: str) -> None:
        """Delete all reports of a job that was deleted from the journal."""
        ...
