"""Read logs, metrics and progress of an attempt after a cursor, as stream messages."""

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

from anygpu.bounds import PROGRESS, valid_progress
from anygpu.server.encoding import dumps
from anygpu.server.live.hub import Hub
from anygpu.store.reports import Reports, ReportState, report_number

LOG_BYTES_PER_READ = 65536
POINTS_PER_READ = 2000

MessageBatch = list[str]
MessagesAndCursor = tuple[MessageBatch, int]  # messages, and the cursor after them


class ReportReader:
    """Reads the reports of one attempt for one client, from the client's position on.

    Of an attempt on several machines, it reads the reports of one (`node`). Clients at the same position share one
    read.
    """

    def __init__(
        self, reports: Reports, hub: Hub, job_id: str, include: frozenset[str], node: int = 0
    ) -> None:
        self._reports, self._hub, self._job_id, self._include = reports, hub, job_id, include
        self._node = node
        self._sent_progress: tuple[Any, Any] = ({}, {})
        self.attempt, self.log, self.point = 1, 0, 0

    def start(self, attempt: int, log: int = 0, point: int = 0) -> None:
        self.attempt, self.log, self.point = attempt, log, point
        self._sent_progress = ({}, {})

    @property
    def _number(self) -> int:
        return report_number(self.attempt, self._node)

    async def next(self, count: int) -> tuple[MessageBatch, bool]:
        """Return the next messages, and whether the client then has everything that is stored.

        `count` is the number of changes that the job's signal has counted. Clients with the same count share one read.
        """
        row = await self._read_shared("row", 0, count, self._read_state)
        texts: MessageBatch = []
        if "logs" in self._include and row.marks.log_bytes > self.log:
            more, self.log = await self._read_shared("log", self.log, count, self._read_log)
            texts += more
        if "metrics" in self._include and row.marks.metric_points > self.point:
            more, self.point = await self._read_shared("points", self.point, count, self._read_points)
            texts += more
        return [*texts, *self._progress_messages(row)], self._is_complete(row)

    def _is_complete(self, row: ReportState) -> bool:
        has_log = "logs" not in self._include or self.log >= row.marks.log_bytes
        return has_log and ("metrics" not in self._include or self.point >= row.marks.metric_points)

    async def _read_shared(
        self, kind: str, cursor: int, count: int, read: Callable[[], Awaitable[Any]]
    ) -> Any:
        return await self._hub.read_shared((kind, self._job_id, self._number, cursor, count), read)

    async def _read_state(self) -> ReportState:
        return await self._reports.state(self._job_id, self._number)

    async def _read_log(self) -> MessagesAndCursor:
        part = await self._reports.log(self._job_id, self._number, offset=self.log, limit=LOG_BYTES_PER_READ)
        if not part.data:
            return [], part.end
        after = part.start + len(part.data)
        data = base64.b64encode(part.data).decode()
        source = {"attempt": self.attempt, "node": self._node}
        return [json.dumps({"kind": "log", **source, "start": part.start, "log": after, "data": data})], after

    async def _read_points(self) -> MessagesAndCursor:
        points, after = await self._reports.points(
            self._job_id, self._number, after=self.point, limit=POINTS_PER_READ
        )
        message = {"kind": "metrics", "attempt": self.attempt, "point": after, "points": list(points)}
        return ([dumps(message)] if points else []), after

    def _progress_messages(self, row: ReportState) -> MessageBatch:
        shown = (row.progress, row.telemetry)
        if "progress" not in self._include or shown == self._sent_progress:
            return []
        self._sent_progress = shown
        message = {"kind": "progress", "attempt": self.attempt, "node": self._node}
        valid = valid_progress(row.progress)
        progress = {name: valid[name] for name in PROGRESS if name in valid}
        return [dumps({**message, "progress": progress, "telemetry": dict(row.telemetry)})]
