"""The stores in memory and in SQL, given the same story, say the same: what the simulation relies on."""

import asyncio
import random

import pytest

from anygpu.errors import ReportGap
from anygpu.events.types import CancelRequested, Event, JobCancelled, JobSubmitted
from anygpu.store.journal import JobQuery, Journal
from anygpu.store.reports import MetricPoint, ReportBatch, Reports
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store import metrics
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.memory.reports import MemoryReports
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    STRANGER,
    attempt_training,
    interrupted_job,
    job_id,
    job_spec,
)

WORDS = ["alpha", "alpine", "beta", "be", "gamma", "resnet50", "Night"]
LIVES: list[list[Event]] = [
    [],
    attempt_training(),
    attempt_training(1, "cloud"),
    interrupted_job(),
    interrupted_job()[:8],
    [CancelRequested(), JobCancelled()],
]


async def populate(journal: Journal, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(80):
        tags = chance.sample(WORDS, chance.randrange(3))
        asked = job_spec(name="-".join(chance.choices(WORDS, k=2)), tags=tags)
        event = JobSubmitted(spec=asked, person=chance.choice(["ada", "eve"]))
        scope = STRANGER if number % 10 == 9 else LAB
        at_ms = START_MS + chance.randrange(60_000)  # clocks that disagree
        await journal.submit(scope, job_id(number), event, at_ms=at_ms)
        life = chance.choice(LIVES)
        await journal.transact(SYSTEM, job_id(number), lambda view, life=life: life, at_ms=at_ms)  # type: ignore[misc]


def some_query(chance: random.Random) -> JobQuery:
    fields: dict[str, object] = {
        "status": tuple(chance.sample(["queued", "running", "completed", "cancelled"], 2)),
        "phase": (chance.choice(["planning", "training", "ended", "finishing"]),),
        "name": f"{chance.choice(WORDS)}-{chance.choice(WORDS)}",
        "tag": chance.choice(WORDS),
        "backend": chance.choice(["local", "cloud"]),
        "person": chance.choice(["ada", "eve", "nobody"]),
        "text": " ".join(
            word[: chance.randrange(1, 9)] for word in chance.sample(WORDS, chance.randrange(1, 3))
        ),
        "id_prefix": job_id(chance.randrange(80))[: chance.randrange(37)],
        "id_suffix": job_id(chance.randrange(80))[-chance.randrange(1, 13) :],
        "submitted_after_ms": START_MS + chance.randrange(60_000),
        "submitted_before_ms": START_MS + chance.randrange(60_000),
    }
    chosen = chance.sample(sorted(fields), chance.randrange(4))
    return JobQuery(limit=chance.choice([1, 3, 50]), **{key: fields[key] for key in chosen})  # type: ignore[arg-type]


async def pages(journal: Journal, query: JobQuery) -> list[list[str]]:
    found = []
    cursor = None
    while True:
        page = await journal.find(LAB, JobQuery(**_fields(query) | {"cursor": cursor}))  # type: ignore[arg-type]
        found.append([job.id for job in page.jobs])
        cursor = page.next_cursor
        if cursor is None:
            return found


def _fields(query: JobQuery) -> dict[str, object]:
    return {name: getattr(query, name) for name in JobQuery.__slots__}


@pytest.mark.parametrize("seed", range(3))
async def test_journals_agree_on_every_query_event_and_view(seed: int) -> None:
    memory, sql = MemoryJournal(), SqlJournal(InlineDatabase())
    await asyncio.gather(populate(memory, seed), populate(sql, seed))
    chance = random.Random(seed)
    for _ in range(150):
        query = some_query(chance)
        assert await pages(memory, query) == await pages(sql, query), query
    assert list(await memory.live()) == list(await sql.live())
    assert list(await memory.events(LAB, after=0, limit=10_000)) == list(
        await sql.events(LAB, after=0, limit=10_000)
    )
    for number in range(80):
        assert await memory.view(SYSTEM, job_id(number)) == await sql.view(SYSTEM, job_id(number))


def some_batch(chance: random.Random, near: int) -> ReportBatch:
    first = max(1, near + chance.randrange(-3, 3))
    last = first + chance.randrange(5)
    frames = range(first, last + 1)

    def points(seq: int) -> list[MetricPoint]:
        dice = random.Random(seq)
        return [
            MetricPoint(dice.choice("abc"), seq, seq / 2, dice.random()) for _ in range(dice.randrange(40))
        ]

    return ReportBatch(
        first=first,
        last=last,
        logs=[(seq, b"%d," % seq * (seq % 7)) for seq in frames if seq % 3],
        points=[(seq, points(seq)) for seq in frames if seq % 2],
        progress={"step": last} if last % 4 == 0 else None,
        telemetry=[(seq, {"n": seq, "at": seq}) for seq in frames if seq % 5 == 0],
        phases=[(seq, "training") for seq in frames if seq == 3],
        dropped=[(seq, 1) for seq in frames if seq % 6 == 0],
    )


async def told(store: Reports, batch: ReportBatch, attempt: int) -> object:
    try:
        return await store.ingest(job_id(1), attempt, batch, at_ms=START_MS + batch.last)
    except ReportGap as gap:
        return gap.details


@pytest.mark.parametrize("seed", range(3))
async def test_report_stores_agree_whatever_is_sent_in_any_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SORT_AT_POINTS", 150)
    monkeypatch.setattr(metrics, "CHUNK_POINTS", 64)
    memory, sql = MemoryReports(), SqlReports(InlineDatabase())
    chance = random.Random(seed)
    near = {1: 0, 2: 0}
    for _ in range(250):
        attempt = chance.choice([1, 2])
        batch = some_batch(chance, near[attempt])
        expected = await told(memory, batch, attempt)
        assert await told(sql, batch, attempt) == expected
        near[attempt] = (await memory.state(job_id(1), attempt)).acked
    for attempt in (1, 2):
        assert near[attempt] > 50
        await _agree(memory, sql, attempt, chance)


async def _agree(memory: Reports, sql: Reports, attempt: int, chance: random.Random) -> None:
    job = job_id(1)
    assert list(await memory.series(job, attempt)) == list(await sql.series(job, attempt))
    for name in (None, "a", "c", "zzz"):
        for _ in range(10):
            after, limit = chance.randrange(3000), chance.randrange(1, 500)
            first = await memory.points(job, attempt, after=after, limit=limit, name=name)
            assert first == await sql.points(job, attempt, after=after, limit=limit, name=name)
    for _ in range(20):
        offset, limit = chance.randrange(-900, 900), chance.randrange(1, 300)
        part = await memory.log(job, attempt, offset=offset, limit=limit)
        assert part == await sql.log(job, attempt, offset=offset, limit=limit)
    for most in (3, 1000):
        history = await memory.telemetry(job, attempt, max_count=most)
        assert list(history) == list(await sql.telemetry(job, attempt, max_count=most))
        period = {"from_s": 100.0, "to_s": 400.0}
        history = await memory.telemetry(job, attempt, max_count=most, **period)
        assert history
        assert list(history) == list(await sql.telemetry(job, attempt, max_count=most, **period))
    for options in ({}, {"from_step": 5}, {"from_step": 3, "to_step": 40}):
        whole = await memory.samples(job, attempt, ["b", "zzz"], max_count=5000, **options)
        assert whole == await sql.samples(job, attempt, ["b", "zzz"], max_count=5000, **options)
