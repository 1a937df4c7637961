"""Logs, metrics and progress of a job's attempts behind a cursor, as stream messages."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from anygpu.server.hub import Hub
from anygpu.server.problems import plain
from anygpu.store.evidence import AttemptRow, Evidence

LOG_READ_BYTES = 65536
POINTS_READ = 2000

Texts = list[str]
Part = tuple[Texts, int]  # messages, and the cursor after them


class EvidenceReader:
    """One client's place in one attempt. Clients at the same place share one read and one encoding."""

    def __init__(self, evidence: Evidence, hub: Hub, job_id: str, include: frozenset[str]) -> None:
        self._evidence, self._hub, self._job_id, self._include = evidence, hub, job_id, include
        self._shown: tuple[Any, Any] = ({}, {})
        self.attempt, self.log, self.point = 1, 0, 0

    def start(self, attempt: int, log: int = 0, point: int = 0) -> None:
        self.attempt, self.log, self.point = attempt, log, point
        self._shown = ({}, {})

    async def next(self, count: int) -> tuple[Texts, bool]:
        """The next messages, and whether the client now has everything that was stored at `count`."""
        row = await self._shared("row", 0, count, self._row)
        texts: Texts = []
        if "logs" in self._include and row.marks.log_bytes > self.log:
            more, self.log = await self._shared("log", self.log, count, self._read_log)
            texts += more
        if "metrics" in self._include and row.marks.metric_points > self.point:
            more, self.point = await self._shared("points", self.point, count, self._read_points)
            texts += more
        return [*texts, *self._progress(row)], self._has_all(row)

    def _has_all(self, row: AttemptRow) -> bool:
        has_log = "logs" not in self._include or self.log >= row.marks.log_bytes
        return has_log and ("metrics" not in self._include or self.point >= row.marks.metric_points)

    async def _shared(self, kind: str, cursor: int, count: int, read: Callable[[], Awaitable[Any]]) -> Any:
        return await self._hub.shared((kind, self._job_id, self.attempt, cursor, count), read)

    async def _row(self) -> AttemptRow:
        return await self._evidence.attempt(self._job_id, self.attempt)

    async def _read_log(self) -> Part:
        part = await self._evidence.log(self._job_id, self.attempt, offset=self.log, limit=LOG_READ_BYTES)
        if not part.data:
            return [], part.end
        after = part.start + len(part.data)
        data = base64.b64encode(part.data).decode()
        message = {"kind": "log", "attempt": self.attempt, "start": part.start, "log": after, "data": data}
        return [json.dumps(message)], after

    async def _read_points(self) -> Part:
        found, after = await self._evidence.points(
            self._job_id, self.attempt, after=self.point, limit=POINTS_READ
        )
        message = {"kind": "metrics", "attempt": self.attempt, "point": after, "points": list(found)}
        return ([dumps(message)] if found else []), after

    def _progress(self, row: AttemptRow) -> Texts:
        shown = (row.progress, row.telemetry)
        if "progress" not in self._include or shown == self._shown:
            return []
        self._shown = shown
        message = {"kind": "progress", "attempt": self.attempt}
        return [dumps({**message, "progress": dict(row.progress), "telemetry": dict(row.telemetry)})]


def dumps(value: Any) -> str:
    """JSON; NaN and infinities, which JSON lacks, are spelled as strings."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(plain(value), allow_nan=False)
