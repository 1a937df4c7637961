"""The interface to what agents report: metrics, logs, progress, telemetry and heartbeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from anygpu.events.facts import Marks


class MetricPoint(NamedTuple):
    """One value of one metric."""

    name: str
    step: int  # smaller than MAX_STEP, either sign
    at: float  # the agent's clock: data, never a decision
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """Frames first..last of an attempt's spool, already parsed and checked."""

    first: int
    last: int
    logs: Sequence[tuple[int, bytes]] = ()  # (seq, bytes)
    points: Sequence[tuple[int, Sequence[MetricPoint]]] = ()  # (seq, points)
    progress: Mapping[str, Any] | None = None  # the newest
    telemetry: Sequence[tuple[int, Mapping[str, Any]]] = ()
    phases: Sequence[tuple[int, str]] = ()
    dropped: Sequence[tuple[int, int]] = ()  # (seq, how many of its points could not be read)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportState:
    """What is known of an attempt beside its events."""

    acked: int = 0  # highest sequence number stored
    beats: int = 0  # goes up with every sign of life; the supervisor watches it change
    marks: Marks = field(default_factory=Marks)
    phase: str = ""  # the newest phase the agent reported
    progress: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    last_seen_ms: int = 0
    dropped_points: int = 0  # malformed, or beyond the limits below


MAX_STEP = 2**62
MAX_NAMES = 1_000  # metrics of an attempt
MAX_NAME_LENGTH = 200
LOG_QUOTA_BYTES = 256 * 2**20  # of a job


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSummary:
    """A metric of an attempt in six numbers."""

    name: str
    count: int
    min: float
    max: float
    last: float
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Bytes of a log from `start`; `start` is after the asked offset where the quota dropped the middle."""

    start: int
    data: bytes
    end: int  # the log's length now, dropped bytes included


class Reports(Protocol):
    """Metrics, log bytes, progress and signs of life, by (job, attempt).

    Reads are scoped by the caller's look-up of the job. Points beyond the limits are dropped and counted, and
    beyond its quota a log keeps its first quarter and its newest bytes: refusing them would block the spool.
    """

    async def ingest(self, job_id: str, attempt: int, batch: ReportBatch, *, at_ms: int) -> ReportState:
        """Store what is new in the batch, durably. ReportGap(expected=…) when earlier frames are missing."""
        ...

    async def record_heartbeat(self, job_id: str, attempt: int, *, at_ms: int) -> ReportState: ...

    async def state(self, job_id: str, attempt: int) -> ReportState: ...

    async def states(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], ReportState]:
        """A row for every key; an attempt nothing was heard of has an empty one."""
        ...

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[MetricPoint], int]:
        """Points in the order stored, after the cursor (an ordinal, from 0), and the cursor after them."""
        ...

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]: ...

    async def sample(self, job_id: str, attempt: int, name: str, *, max_count: int) -> Sequence[MetricPoint]:
        """At most `most` points of one series, keeping every bucket's extremes, the first and the last."""
        ...

    async def telemetry(self, job_id: str, attempt: int, *, max_count: int) -> Sequence[Mapping[str, Any]]:
        """At most `most` samples of the host, evenly thinned, oldest first, the newest included."""
        ...

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Bytes from `offset`; a negative offset counts from the end."""
        ...
