"""The interface to what agents report: metrics, logs, progress, telemetry and heartbeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from anygpu.events.facts import Marks


class MetricPoint(NamedTuple):
    """One value of one metric."""

    name: str
    step: int  # absolute value below MAX_STEP
    at: float  # unix seconds by the agent's clock; never used for decisions
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """Frames `first` to `last` of an attempt's spool, parsed and validated."""

    first: int
    last: int
    logs: Sequence[tuple[int, bytes]] = ()  # (seq, bytes)
    points: Sequence[tuple[int, Sequence[MetricPoint]]] = ()  # (seq, points)
    progress: Mapping[str, Any] | None = None  # the newest value
    telemetry: Sequence[tuple[int, Mapping[str, Any]]] = ()
    phases: Sequence[tuple[int, str]] = ()
    dropped: Sequence[tuple[int, int]] = ()  # (seq, number of invalid points)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportState:
    """State of an attempt's reports: what was stored, and the newest progress, phase and telemetry."""

    acked: int = 0  # highest stored sequence number
    beats: int = 0  # increases with every report or heartbeat; the supervisor watches it change
    marks: Marks = field(default_factory=Marks)
    phase: str = ""  # the newest phase the agent reported
    progress: Mapping[str, Any] = field(default_factory=dict)
    telemetry: Mapping[str, Any] = field(default_factory=dict)
    last_seen_ms: int = 0
    dropped_points: int = 0  # invalid, or beyond the limits below


MAX_STEP = 2**62
MAX_NAMES = 1_000  # metrics per attempt
MAX_NAME_LENGTH = 200
LOG_QUOTA_BYTES = 256 * 2**20  # per job


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSummary:
    """Summary of one metric of an attempt."""

    name: str
    count: int
    min: float
    max: float
    last: float
    last_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Bytes of a log from `start`, which is after the requested offset where the quota dropped the middle."""

    start: int
    data: bytes
    end: int  # current length of the log, dropped bytes included


class Reports(Protocol):
    """Metrics, logs, progress, telemetry and heartbeats by (job, attempt).

    Reports are stored under their own attempt, once, however late they arrive. The caller has already checked that
    the job is in scope. Points beyond the limits are dropped and counted. A log beyond its quota keeps its first
    quarter and its newest bytes. Rejecting either would block the agent's spool.
    """

    async def ingest(self, job_id: str, attempt: int, batch: ReportBatch, *, at_ms: int) -> ReportState:
        """Store the new frames of the batch durably. Raises ReportGap(expected=…) when earlier frames are missing."""
        ...

    async def record_heartbeat(self, job_id: str, attempt: int, *, at_ms: int) -> ReportState: ...

    async def state(self, job_id: str, attempt: int) -> ReportState: ...

    async def states(self, keys: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], ReportState]:
        """The state for every key; an empty one for an attempt that never reported."""
        ...

    async def points(
        self, job_id: str, attempt: int, *, after: int, limit: int, name: str | None = None
    ) -> tuple[Sequence[MetricPoint], int]:
        """Points after the cursor in storage order, and the next cursor. A cursor is an ordinal; 0 is the start."""
        ...

    async def series(self, job_id: str, attempt: int) -> Sequence[SeriesSummary]: ...

    async def sample(self, job_id: str, attempt: int, name: str, *, max_count: int) -> Sequence[MetricPoint]:
        """At most `max_count` points of one series: the first, the last, and each bucket's extremes."""
        ...

    async def telemetry(self, job_id: str, attempt: int, *, max_count: int) -> Sequence[Mapping[str, Any]]:
        """At most `max_count` host samples, evenly spaced, oldest first, including the newest."""
        ...

    async def log(self, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart:
        """Read bytes from `offset`; a negative offset counts from the end."""
        ...
