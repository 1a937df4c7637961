"""Streams replay from a cursor, then follow; every message is delivered once."""

import asyncio
import base64
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from anygpu.events.fold import Recorded
from anygpu.events.types import AttemptReleased, Event, JobCompleted
from anygpu.events.view import JobView
from anygpu.server.live import hub as hub_module
from anygpu.server.live import stream as stream_module
from anygpu.server.live.hub import Hub
from anygpu.server.live.stream import (
    ALL_KINDS,
    MessageBatch,
    StreamPosition,
    StreamSources,
    follow_job,
    follow_project,
)
from anygpu.store.reports import MetricPoint, ReportBatch, report_number
from anygpu.store.scope import AnyScope
from anygpu.tenancy.stream_access import StreamAccess
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.samples import jobs
from anygpu.testing.samples.jobs import LAB

Message = dict[str, Any]


def _always(event: Event) -> Callable[[JobView | None], list[Event]]:
    return lambda _: [event]


@dataclass
class World:
    """A hub over journals in memory, and an agent that reports."""

    hub: Hub
    journal: MemoryJournal
    evidence: MemoryReports
    sources: StreamSources
    seqs: dict[int, int] = field(default_factory=dict)

    async def submit(self, number: int = 1) -> str:
        job_id = jobs.job_id(number)
        await self.journal.submit(LAB, job_id, jobs.job_submitted(), at_ms=jobs.START_MS)
        return job_id

    async def happens(self, job_id: str, *events: Event) -> None:
        for event in events:
            decide = _always(event)
            await self.journal.transact(LAB, job_id, decide, at_ms=jobs.START_MS)

    async def reports(
        self, job_id: str, attempt: int, log: bytes = b"", points: Sequence[MetricPoint] = ()
    ) -> None:
        seq = self.seqs[attempt] = self.seqs.get(attempt, 0) + 1
        batch = ReportBatch(first=seq, last=seq, logs=[(seq, log)], points=[(seq, points)])
        await self.evidence.ingest(job_id, attempt, batch, at_ms=0)
        self.hub.on_report(job_id)

    async def view(self, job_id: str) -> JobView:
        return await self.journal.view(LAB, job_id)

    async def follow(self, job_id: str, cursor: StreamPosition = StreamPosition()) -> "Following":  # noqa: B008
        return Following(
            follow_job(self.sources, LAB, await self.view(job_id), cursor, ALL_KINDS, StreamAccess())
        )


class Following:
    """A client reading a stream, message by message."""

    def __init__(self, batches: AsyncGenerator[MessageBatch, None]) -> None:
        self._batches = batches
        self._messages = self._one_by_one(batches)

    async def close(self) -> None:
        await self._batches.aclose()

    async def _one_by_one(self, batches: AsyncGenerator[MessageBatch, None]) -> AsyncIterator[Message]:
        async for texts in batches:
            for text in texts:
                yield json.loads(text)

    async def next(self, kind: str | None = None) -> Message:
        async with asyncio.timeout(5):
            while True:
                message = await anext(self._messages)
                if kind is None or message["kind"] == kind:
                    return message

    async def rest(self) -> list[Message]:
        async with asyncio.timeout(5):
            return [message async for message in self._messages]


@pytest.fixture
async def world() -> World:
    hub = Hub()
    journal = MemoryJournal(on_commit=hub.on_commit)
    evidence = MemoryReports()
    return World(hub, journal, evidence, StreamSources(journal=journal, reports=evidence, hub=hub))


async def test_a_finished_job_is_replayed_and_ends(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.interrupted_job())
    messages = await (await world.follow(job_id)).rest()
    positions = [message["after"] for message in messages if message["kind"] == "event"]
    assert positions == list(range(1, 2 + len(jobs.interrupted_job())))
    assert messages[-1] == {"kind": "end", "status": "completed"}


async def test_each_node_of_an_attempt_has_its_own_log_in_the_stream(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.interrupted_job())
    await world.reports(job_id, 1, b"of node 0")
    await world.reports(job_id, report_number(1, 1), b"of node 1, attempt 1")
    await world.reports(job_id, report_number(2, 1), b"of node 1, attempt 2")
    messages = await (await world.follow(job_id, StreamPosition(node=1))).rest()
    logs = [
        (each["attempt"], each["node"], base64.b64decode(each["data"]))
        for each in messages
        if each["kind"] == "log"
    ]
    assert logs == [(1, 1, b"of node 1, attempt 1"), (2, 1, b"of node 1, attempt 2")]
    cursor = StreamPosition(node=1, attempt=1, log=len(b"of node 1"))
    found = await (await world.follow(job_id, cursor)).next("log")
    assert base64.b64decode(found["data"]) == b", attempt 1"


class LateJournal(MemoryJournal):
    """A journal whose events can be read before it updates its views and notifies followers."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(on_commit=self._hold_back)
        self._hub = hub
        self._held_back: list[Recorded] = []
        self.old_view: JobView | None = None

    def _hold_back(self, recorded: Sequence[Recorded]) -> None:
        self._held_back += recorded

    async def view(self, scope: AnyScope, job_id: str) -> JobView:
        return self.old_view or await super().view(scope, job_id)

    def publish(self) -> None:
        self.old_view = None
        self._hub.on_commit(self._held_back)


async def test_a_stream_ends_although_it_read_the_end_before_the_view_was_updated() -> None:
    hub, evidence = Hub(), MemoryReports()
    journal = LateJournal(hub)
    world = World(hub, journal, evidence, StreamSources(journal=journal, reports=evidence, hub=hub))
    job_id = await world.submit()
    journal.old_view = await world.view(job_id)
    await world.happens(job_id, *jobs.interrupted_job())
    following = await world.follow(job_id)
    for _ in range(1 + len(jobs.interrupted_job())):
        await following.next("event")
    journal.publish()
    assert (await following.rest())[-1] == {"kind": "end", "status": "completed"}


async def test_events_committed_while_following_arrive_once_in_order(world: World) -> None:
    job_id = await world.submit()
    following = await world.follow(job_id)
    assert (await following.next())["event"]["type"] == "JobSubmitted"
    await world.happens(job_id, *jobs.attempt_training())
    kinds = [(await following.next("event"))["event"]["type"] for _ in range(4)]
    assert kinds == ["AttemptLaunching", "AttemptLaunched", "AttemptClaimed", "TrainingStarted"]


async def test_a_stream_ends_only_after_every_stored_byte_and_point(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.attempt_training())
    following = await world.follow(job_id)
    await following.next("event")
    for number in range(50):
        await world.reports(job_id, 1, b"x" * 100_000, [MetricPoint("loss", number, 1.0, 0.5)] * 500)
    await world.happens(job_id, *jobs.attempt_ended(), JobCompleted())
    messages = await following.rest()
    logs = b"".join(base64.b64decode(m["data"]) for m in messages if m["kind"] == "log")
    points = [point for m in messages if m["kind"] == "metrics" for point in m["points"]]
    assert (len(logs), len(points)) == (5_000_000, 25_000)
    assert messages[-1]["kind"] == "end"


async def test_output_of_attempts_is_delivered_in_order(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.attempt_training(1))
    await world.reports(job_id, 1, b"first", [MetricPoint("loss", 1, 1.0, 0.9)])
    await world.happens(job_id, *jobs.attempt_ended(1, exit_code=1), jobs.recovery_started(1))
    following = await world.follow(job_id)
    assert base64.b64decode((await following.next("log"))["data"]) == b"first"
    await world.happens(job_id, *jobs.attempt_training(2))
    await world.reports(job_id, 2, b"second")
    second = await following.next("log")
    assert (second["attempt"], second["log"]) == (2, len(b"second"))
    await world.happens(job_id, *jobs.attempt_ended(2), JobCompleted())
    assert (await following.rest())[-1]["kind"] == "end"


@pytest.mark.parametrize("seed", range(20))
async def test_a_client_that_reconnects_at_random_gets_everything_once(world: World, seed: int) -> None:
    chance = random.Random(seed)
    job_id = await world.submit()
    writing = asyncio.create_task(_a_life(world, job_id, chance))
    seen: list[Message] = []
    cursor = StreamPosition()
    while not seen or seen[-1]["kind"] != "end":
        following = await world.follow(job_id, cursor)
        for _ in range(chance.randint(1, 12)):
            message = await following.next()
            seen.append(message)
            cursor = _advanced(cursor, message)
            if message["kind"] == "end":
                break
    written = await writing
    assert [m["after"] for m in seen if m["kind"] == "event"] == list(range(1, written.events + 1))
    for attempt, log in written.logs.items():
        mine = [m for m in seen if m["kind"] == "log" and m["attempt"] == attempt]
        assert b"".join(base64.b64decode(m["data"]) for m in mine) == log
        points = [p for m in seen if m["kind"] == "metrics" and m["attempt"] == attempt for p in m["points"]]
        assert [point[1] for point in points] == list(range(written.points[attempt]))


@dataclass
class Written:
    events: int = 1
    logs: dict[int, bytes] = field(default_factory=dict)
    points: dict[int, int] = field(default_factory=dict)


async def _a_life(world: World, job_id: str, chance: random.Random) -> Written:
    written = Written()
    for attempt in (1, 2):
        await world.happens(job_id, *jobs.attempt_training(attempt))
        written.logs[attempt], written.points[attempt] = b"", 0
        for _ in range(chance.randint(1, 8)):
            line = chance.randbytes(chance.randint(1, 200))
            await world.reports(
                job_id, attempt, line, [MetricPoint("loss", written.points[attempt], 0.0, 1.0)]
            )
            written.logs[attempt] += line
            written.points[attempt] += 1
            await asyncio.sleep(chance.choice((0, 0, 0.002)))
        await world.happens(job_id, *jobs.attempt_ended(attempt, exit_code=2 - attempt))
        written.events += 6
        if attempt == 1:
            await world.happens(job_id, jobs.recovery_started(1))
            written.events += 1
    await world.happens(job_id, JobCompleted())
    written.events += 1
    return written


def _advanced(cursor: StreamPosition, message: Message) -> StreamPosition:
    if message["kind"] == "event":
        return replace(cursor, after=message["after"])
    if message["kind"] not in ("log", "metrics"):
        return cursor
    if message["attempt"] > cursor.attempt:
        cursor = replace(cursor, attempt=message["attempt"], log=0, point=0)
    if message["kind"] == "log":
        return replace(cursor, log=message["log"])
    return replace(cursor, point=message["point"])


async def test_a_follower_older_than_the_ring_reads_the_journal(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "RING_SIZE", 3)
    following = Following(follow_project(world.sources, LAB, 0, StreamAccess()))
    await world.submit(0)
    assert (await following.next("event"))["after"] == 1
    for number in range(1, 40):
        await world.submit(number)
    assert [(await following.next("event"))["after"] for _ in range(39)] == list(range(2, 41))


async def test_events_of_another_process_are_found_by_polling(world: World) -> None:
    hub = Hub(max_read_age_s=0.005)  # nobody tells it what is committed
    sources = replace(world.sources, hub=hub, poll_s=0.01)
    job_id = await world.submit(1)
    project = Following(follow_project(sources, LAB, 0, StreamAccess()))
    job = Following(
        follow_job(sources, LAB, await world.view(job_id), StreamPosition(), ALL_KINDS, StreamAccess())
    )
    assert (await project.next("event"))["after"] == (await job.next("event"))["after"] == 1
    await world.happens(job_id, *jobs.attempt_training())
    await world.reports(job_id, 1, b"from afar")
    assert (await project.next("event"))["after"] == (await job.next("event"))["after"] == 2
    assert base64.b64decode((await job.next("log"))["data"]) == b"from afar"


async def test_events_of_another_process_after_one_of_this_process_are_found(world: World) -> None:
    """The newest event that this process has committed is not the newest event."""
    hub = Hub(max_read_age_s=0.005)
    sources = replace(world.sources, hub=hub, poll_s=0.01)
    job_id = await world.submit(1)
    project = Following(follow_project(sources, LAB, 0, StreamAccess()))
    job = Following(
        follow_job(sources, LAB, await world.view(job_id), StreamPosition(), ALL_KINDS, StreamAccess())
    )
    await asyncio.gather(project.next("event"), job.next("event"))
    launching, *others = jobs.attempt_training()
    await world.happens(job_id, launching)
    hub.on_commit(await world.journal.events(LAB, after=1, limit=1))  # this process has committed it
    assert (await project.next("event"))["after"] == (await job.next("event"))["after"] == 2
    await world.happens(job_id, *others)
    assert (await project.next("event"))["after"] == (await job.next("event"))["after"] == 3


async def test_events_of_another_process_are_found_while_reports_arrive(world: World) -> None:
    hub = Hub(max_read_age_s=0.005)
    sources = replace(world.sources, hub=hub, poll_s=0.05)
    job_id = await world.submit(1)
    await world.happens(job_id, *jobs.attempt_training())
    view = await world.view(job_id)
    job = Following(follow_job(sources, LAB, view, StreamPosition(after=1), ALL_KINDS, StreamAccess()))

    async def report() -> None:
        while True:
            await world.reports(job_id, 1, b"x")
            hub.on_report(job_id)
            await asyncio.sleep(0.01)

    reporting = asyncio.create_task(report())
    positions = [(await job.next("event"))["after"] for _ in range(view.position - 1)]
    await world.happens(job_id, jobs.checkpoint_saved(1))
    assert (await asyncio.wait_for(job.next("event"), 30))["after"] == positions[-1] + 1
    reporting.cancel()


async def test_many_followers_of_one_job_share_one_read(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.attempt_training())
    reads = 0
    read_log = world.evidence.log

    async def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read_log(*args, **kwargs)

    world.evidence.log = counted  # type: ignore[method-assign]
    following = [await world.follow(job_id) for _ in range(50)]
    await world.reports(job_id, 1, b"hello")
    heard = await asyncio.gather(*(each.next("log") for each in following))
    assert len(heard) == 50
    assert reads == 1


async def test_a_silent_stream_gets_a_ping(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "PING_INTERVAL_S", 0.01)
    job_id = await world.submit()
    following = await world.follow(job_id)
    assert await following.next("ping") == {"kind": "ping"}


async def test_closing_the_hub_ends_every_stream_without_an_end_message(world: World) -> None:
    job_id = await world.submit()
    following = await world.follow(job_id)
    await following.next("event")
    world.hub.close()
    assert await following.rest() == []


async def test_values_that_json_lacks_are_strings(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.attempt_training())
    following = await world.follow(job_id)
    await world.reports(
        job_id, 1, b"", [MetricPoint("loss", 1, 2.0, float("nan")), MetricPoint("x", 1, 2.0, float("-inf"))]
    )
    points = (await following.next("metrics"))["points"]
    assert [point[3] for point in points] == ["NaN", "-Infinity"]


async def test_ended_streams_leave_nothing_in_the_hub(world: World) -> None:
    job_id = await world.submit()
    following = await world.follow(job_id)
    await following.next("event")
    await following.close()
    del following
    await world.happens(
        job_id, *jobs.attempt_training(), *jobs.attempt_ended()[:1], AttemptReleased(attempt=1)
    )
    assert world.hub.feeds() == []


async def test_a_later_follower_does_not_use_an_old_shared_read(world: World) -> None:
    job_id = await world.submit()
    await world.happens(job_id, *jobs.attempt_training())
    await world.reports(job_id, 1, b"early")
    first = await world.follow(job_id)
    assert base64.b64decode((await first.next("log"))["data"]) == b"early"
    await first.close()
    del first
    await world.reports(job_id, 1, b" late")
    second = await world.follow(job_id)
    assert base64.b64decode((await second.next("log"))["data"]) == b"early late"
