"""`Job`: status, logs, metrics, result and files of one submitted job."""

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client
from anygpu.sdk.status import TERMINAL, Status

REFRESH_S = 10.0  # how often to read values that the stream does not contain, such as the cost


class Monitor:
    """An iterator over a job's status, for `for` or `async for`, until the job has ended."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._job_id = job_id

    def __iter__(self) -> Iterator[Status]:
        return _StatusFeed(self._client.another(), self._client.another(), self._job_id).statuses()

    async def __aiter__(self) -> AsyncIterator[Status]:
        import asyncio

        following = _StatusFeed(self._client.another(), self._client.another(), self._job_id)
        statuses = following.statuses()
        try:
            while (status := await asyncio.to_thread(next, statuses, None)) is not None:
                yield status
        finally:
            following.close()  # ends the thread that waits for the next message


class _StatusFeed:
    def __init__(self, streaming: Client, asking: Client, job_id: str) -> None:
        self._streaming, self._queries = streaming, asking
        self._job_id = job_id
        self._stream = streaming.stream(job_id, include=("events", "metrics", "progress"))
        self._refreshed_at = 0.0

    def statuses(self) -> Iterator[Status]:
        try:
            yield from self._statuses()
        finally:
            self._streaming.close()
            self._queries.close()

    def _statuses(self) -> Iterator[Status]:
        status = self._refresh(Status(job_id=self._job_id))
        yield status
        if status.done:
            return
        for message in self._stream:
            fresh = self._apply(status.without_news(), message)
            if fresh != status:
                status = fresh
                yield status

    def close(self) -> None:
        self._stream.close()

    def _apply(self, status: Status, message: dict[str, Any]) -> Status:
        kind = message["kind"]
        if kind == "progress":
            status = status.with_progress(message.get("progress") or {}, message.get("telemetry") or {})
        elif kind == "metrics":
            status = status.with_points(message["points"])
        if kind in ("event", "end") or time.monotonic() - self._refreshed_at > REFRESH_S:
            status = self._refresh(status)
        return status

    def _refresh(self, status: Status) -> Status:
        self._refreshed_at = time.monotonic()
        return status.with_job(self._queries.job(self._job_id))


class JobFailed(AnygpuError):
    """The job failed or was cancelled. Read its failure and its log."""

    code = "job_failed"

    def __init__(self, message: str | None = None, *, job: Mapping[str, Any] | None = None) -> None:
        self.job = job or {}
        self.failure: Mapping[str, Any] = self.job.get("failure") or {}
        super().__init__(message)


class NotFinished(AnygpuError):
    """The job has not ended within the timeout. It keeps running; call again to wait longer."""

    code = "not_finished"
    retryable = True


class Job:
    """A submitted job: follow it, read its logs, cancel it, download its files."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self.id = job_id

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def describe(self) -> dict[str, Any]:
        """Return the job's details as the API's JSON."""
        return self._client.job(self.id)

    def status(self) -> Status:
        return Status(job_id=self.id).with_job(self.describe())

    def monitor(self) -> Monitor:
        """Return an iterator that yields the status after every change until the job ends.

        Both `for` and `async for` work.
        """
        return Monitor(self._client, self.id)

    def logs(self, *, follow: bool = False, node: int = 0) -> Iterator[str]:
        """Yield the output lines of the newest attempt.

        With `follow`, yield the lines of every attempt until the job ends. `node` is the machine whose output is read,
        of a job on several machines.
        """
        chunks = self._live_log(node) if follow else self._stored_log(node)
        return _split_lines(chunks)

    def log_lines(
        self, first: int = 1, count: int = 200, *, attempt: int | None = None, node: int = 0
    ) -> list[dict[str, Any]]:
        """Return `count` lines from line `first`, each with `number`, `offset` and `text`.

        The first line is 1, and a negative number counts from the end. Long lines can make the list shorter. `node` is
        the machine whose output is read, of a job on several machines.
        """
        lines: list[dict[str, Any]] = self._client.log_lines(
            self.id, attempt=attempt, node=node, first=first, count=count
        )["lines"]
        return lines

    def search_log(
        self,
        text: str,
        *,
        regex: bool = False,
        case: bool = False,
        attempt: int | None = None,
        node: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """Yield the matching lines, each with `number`, `offset` and `text`.

        Upper and lower case are distinguished only with `case`. `node` is the machine whose output is searched.
        """
        after: int | None = 0
        options = {"regex": regex, "case": case, "node": node, "limit": 1000, "count": False}
        while after is not None:
            page = self._client.search_log(self.id, text, attempt=attempt, after=after, **options)
            attempt, after = page["attempt"] or None, page["next"]
            yield from page["hits"]

    def metrics(self, *names: str, points: int = 1000) -> dict[str, list[list[Any]]]:
        """Return a list of `[step, time, value]` for each metric.

        The lists are downsampled to about `points` entries; minimum and maximum values are kept.
        """
        series = self._client.metrics(self.id, names=names, points=points)["series"]
        return {each["name"]: each["points"] for each in series}

    def metrics_history(
        self, *names: str, points: int = 1000, from_step: int | None = None, to_step: int | None = None
    ) -> dict[str, dict[int, list[list[Any]]]]:
        """Return for each metric, by the number of the attempt, a list of `[step, time, value]`.

        With `from_step` or `to_step`, only these steps are read, so that a short range has every point.
        """
        answer = self._client.metrics_history(
            self.id, names, points=points, from_step=from_step, to_step=to_step
        )
        history: dict[str, dict[int, list[list[Any]]]] = {name: {} for name in names}
        for attempt in answer["attempts"]:
            for series in attempt["series"]:
                columns = zip(series["steps"], series["times"], series["values"], strict=True)
                history[series["name"]][attempt["attempt"]] = [list(point) for point in columns]
        return history

    def telemetry(self, *, points: int = 300, node: int = 0) -> dict[int, dict[str, list[list[float]]]]:
        """Return the use of the machine, by the number of the attempt: a list of `[time, value]` for each series.

        `node` is the number of the machine, of a job on several machines.
        """
        answer = self._client.telemetry(self.id, points=points, node=node)
        return {
            attempt["attempt"]: {series["name"]: series["points"] for series in attempt["series"]}
            for attempt in answer["attempts"]
        }

    def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the job ends and return its details. Raise JobFailed if the job did not complete."""
        job = self._wait_until_ended(timeout_s)
        if job["status"] != "completed":
            raise JobFailed(_failure_message(job), job=job)
        return job

    def cancel(self) -> None:
        self._client.cancel(self.id)

    def edit(
        self,
        *,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
    ) -> None:
        """Change the name, tags or notes of this job, also after its end. What is left out stays as it is."""
        changes = {"name": name, "tags": None if tags is None else list(tags), "notes": notes}
        more = {"add_tags": list(add_tags), "remove_tags": list(remove_tags)}
        given = {key: value for key, value in changes.items() if value is not None}
        self._client.edit(self.id, **given, **{key: value for key, value in more.items() if value})

    def start(self) -> None:
        """Start this job before the other waiting jobs of its project, as soon as a machine is free."""
        self._client.start(self.id)

    def delete(self) -> None:
        """Delete this job, which must have ended, with its logs, metrics and files."""
        self._client.delete(self.id)

    def resume(self, *, from_step: int | None = None, **overrides: Any) -> "Job":
        """Start a new job from this job's newest intact checkpoint, or from that of a step. Return the new job."""
        chosen = {} if from_step is None else {"resume_from": from_step}
        return Job(self._client, self._client.resume(self.id, {**overrides, **chosen})["id"])

    def fetch(
        self, directory: str | Path = ".", *, checkpoints: bool = False, force: bool = False
    ) -> list[Path]:
        """Download the job's output files into `directory`, verify them, and return their paths."""
        from anygpu.sdk.downloads import Downloader, artifact_files, checkpoint_files

        files = artifact_files(self._client, self.id)
        if checkpoints:
            files = [*files, *checkpoint_files(self._client, self.id)]
        download = Downloader(Path(directory), self._client.http.endpoint.url, force=force)
        return [download.fetch(each).path for each in files]

    def read(self, name: str) -> bytes:
        """Return the content of an output file, such as a small JSON file. `fetch` downloads large files."""
        import hashlib

        from anygpu.errors import BlobCorrupt

        found = {each["name"]: each for each in self._client.artifacts(self.id)}
        data = self._client.read_artifact(self.id, name)
        if name in found and hashlib.sha256(data).hexdigest() != found[name]["sha256"]:
            raise BlobCorrupt(f"{name} does not match its checksum.", hint="Read it again.")
        return data

    def _wait_until_ended(self, timeout_s: float | None) -> dict[str, Any]:
        job = self.describe()
        if job["status"] in TERMINAL:
            return job
        if not self._ends_within(timeout_s):
            raise NotFinished(
                f"Job {self.id} has not ended after {timeout_s:g} s.",
                hint="The job keeps running; call again to wait longer.",
            )
        return self.describe()

    def _ends_within(self, timeout_s: float | None) -> bool:
        """Wait until the job ends; return False after `timeout_s` seconds.

        A timer closes the stream, which ends the wait.
        """
        import threading

        with closing(self._client.another()) as waiting:
            stream = waiting.stream(self.id, include=("events",))
            alarm = threading.Timer(timeout_s or 0, stream.close)
            alarm.daemon = True
            if timeout_s is not None:
                alarm.start()
            ended = any(message["kind"] == "end" for message in stream)
            alarm.cancel()
        return ended

    def _stored_log(self, node: int) -> Iterator[bytes]:
        offset, attempt = 0, None
        while True:
            data, offset, attempt = self._client.logs(self.id, attempt=attempt, node=node, offset=offset)
            if not data:
                return
            yield data

    def _live_log(self, node: int) -> Iterator[bytes]:
        with closing(self._client.another()) as following:
            stream = following.stream(self.id, include=("logs",), node=node)
            yield from (message["data"] for message in stream if message["kind"] == "log")


def _failure_message(job: Mapping[str, Any]) -> str:
    failure = job.get("failure") or {}
    message = failure.get("message") or job["status"]
    return f"Job {job.get('name') or job['id']} {job['status']}: {message}"


def _split_lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if rest:
        yield rest.decode(errors="replace")
