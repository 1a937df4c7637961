"""`job.monitor()`: every change of a job as it happens, for plain and for async loops alike."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from anygpu.sdk.client import Client
from anygpu.sdk.status import Status

REFRESH_S = 10.0  # what no message carries (the cost) is asked for this often


class Monitor:
    """`for status in job.monitor()` or `async for status in job.monitor()`, until the job has ended."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._job_id = job_id

    def __iter__(self) -> Iterator[Status]:
        return _Following(self._client.another(), self._client.another(), self._job_id).statuses()

    async def __aiter__(self) -> AsyncIterator[Status]:
        import asyncio

        following = _Following(self._client.another(), self._client.another(), self._job_id)
        statuses = following.statuses()
        try:
            while (status := await asyncio.to_thread(next, statuses, None)) is not None:
                yield status
        finally:
            following.close()  # a thread that waits for the next message must not outlive the loop


class _Following:
    def __init__(self, streaming: Client, asking: Client, job_id: str) -> None:
        self._streaming, self._asking = streaming, asking
        self._job_id = job_id
        self._stream = streaming.stream(job_id, include=("events", "metrics", "progress"))
        self._asked_at = 0.0

    def statuses(self) -> Iterator[Status]:
        try:
            yield from self._statuses()
        finally:
            self._streaming.close()
            self._asking.close()

    def _statuses(self) -> Iterator[Status]:
        status = self._asked(Status(job_id=self._job_id))
        yield status
        if status.done:
            return
        for message in self._stream:
            fresh = self._updated(status.still(), message)
            if fresh != status:
                status = fresh
                yield status

    def close(self) -> None:
        self._stream.close()

    def _updated(self, status: Status, message: dict[str, Any]) -> Status:
        kind = message["kind"]
        if kind == "progress":
            status = status.with_progress(message.get("progress") or {}, message.get("telemetry") or {})
        elif kind == "metrics":
            status = status.with_points(message["points"])
        if kind in ("event", "end") or time.monotonic() - self._asked_at > REFRESH_S:
            status = self._asked(status)
        return status

    def _asked(self, status: Status) -> Status:
        self._asked_at = time.monotonic()
        return status.with_job(self._asking.job(self._job_id))
