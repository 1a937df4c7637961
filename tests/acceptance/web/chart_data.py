"""Jobs with metrics and telemetry for tests of charts, written to the database before the server starts."""

import math
import random
from array import array
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from anygpu.events.facts import CheckpointRef, Marks
from anygpu.events.offers import Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunching,
    AttemptReleased,
    CheckpointSaved,
    Event,
    JobCompleted,
    JobSubmitted,
    TrainingStarted,
)
from anygpu.events.view import JobView
from anygpu.spec.load import from_mapping
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.database import Database, open_database
from anygpu.store.sql.engine.statements import execute_many
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store import attempts
from anygpu.store.sql.report_store.metric_encoding import PointColumns, encode_points, sketch
from anygpu.store.sql.report_store.metrics import CHUNK_POINTS
from anygpu.store.sql.report_store.reports import SqlReports

SCOPE = Scope(organisation="local", project="default", person="me")
START_MS = 1_763_000_000_000
STEP_S = 0.25
LARGE_METRICS, LARGE_POINTS = 200, 100_000
GIB = 2**30


@asynccontextmanager
async def opened(state: Path) -> AsyncIterator[Database]:
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = await open_database(f"sqlite:///{state / 'anygpu.db'}")
    try:
        yield database
    finally:
        await database.close()


def job_number(number: int) -> str:
    return f"01980000-0000-7000-8000-{number:012x}"


class Appending:
    """Decides to append one event to a job."""

    def __init__(self, event: Event) -> None:
        self._event = event

    def __call__(self, view: JobView) -> list[Event]:
        return [self._event]


async def add_job(database: Database, number: int, events: list[Event], **spec: Any) -> str:
    job_id = job_number(number)
    journal = SqlJournal(database)
    at_ms = START_MS + number * 1000
    submitted = JobSubmitted(spec=from_mapping({"script": "train.py", **spec}), person="me")
    await journal.submit(SCOPE, job_id, submitted, at_ms=at_ms)
    for later, event in enumerate(events, 1):
        await journal.transact(SCOPE, job_id, Appending(event), at_ms=at_ms + later * 600_000)
    return job_id


def attempt_events(number: int, offer: Offer, resume: CheckpointRef | None = None) -> list[Event]:
    name = f"anygpu-{number}"
    return [
        AttemptLaunching(attempt=number, name=name, offer=offer, ticket_sha256="", resume=resume),
        AttemptClaimed(attempt=number, claimant="test"),
        TrainingStarted(attempt=number),
    ]


def end_events(number: int, points: int, *, exit_code: int = 0) -> list[Event]:
    marks = Marks(metric_points=points)
    return [
        AttemptEnded(attempt=number, outcome="exited", exit_code=exit_code, marks=marks),
        AttemptReleased(attempt=number),
    ]


def checkpoint(attempt: int, step: int) -> CheckpointRef:
    return CheckpointRef(
        id=f"c{step}", attempt=attempt, step=step, manifest=f"m/{step}", size=1, saved_at_ms=START_MS
    )


AWS = Offer(
    backend="aws",
    name="g5.xlarge",
    gpu_kind="A10G",
    gpu_count=1,
    interruptible=True,
    price_microusd_per_hour=430_000,
)
LAMBDA = Offer(
    backend="lambda", name="gpu_1x_a10", gpu_kind="A10", gpu_count=1, price_microusd_per_hour=1_290_000
)
RANGES = {1: (0, 1200), 2: (1100, 1600), 3: (1500, 2500)}  # attempts and their steps


async def add_job_with_three_attempts(database: Database, number: int, **spec: Any) -> str:
    """Add a completed job that changed machines twice: attempts resume before the end of the one before."""
    events: list[Event] = []
    for attempt, (first, last) in RANGES.items():
        resume = None if attempt == 1 else checkpoint(attempt - 1, first)
        offer = AWS if attempt < 3 else LAMBDA
        events += attempt_events(attempt, offer, resume)
        if attempt < 3:
            after = RANGES[attempt + 1][0]
            events.append(CheckpointSaved(attempt=attempt, checkpoint=checkpoint(attempt, after)))
        events += end_events(attempt, last - first)
    job_id = await add_job(database, number, [*events, JobCompleted()], **spec)
    reports = SqlReports(database)
    for attempt, (first, last) in RANGES.items():
        points = list(curves(random.Random(number), first, last))
        telemetry = [(2 + n, telemetry_sample(attempt, n)) for n in range(300)]
        batch = ReportBatch(first=1, last=302, points=[(1, points)], telemetry=telemetry)
        await reports.ingest(job_id, attempt, batch, at_ms=START_MS)
    return job_id


ODD_TIMES = {3: math.nan, 4: math.inf, 5: -math.inf, 6: 1e20}


async def add_job_with_odd_times(database: Database, number: int) -> str:
    """Add a job with ten points, some with times that the server no longer accepts, and with epochs of any size."""
    events = [*attempt_events(1, Offer(backend="local")), *end_events(1, 20), JobCompleted()]
    job_id = await add_job(database, number, events, name="odd-times")
    points = [
        point
        for step in range(10)
        for at in [ODD_TIMES.get(step, START_MS / 1000 + step)]
        for point in (
            MetricPoint("loss", step, at, 1 / (1 + step)),
            MetricPoint("epoch", step, at, -1.7e308 if step % 2 else 1.7e308),
        )
    ]
    await SqlReports(database).ingest(
        job_id, 1, ReportBatch(first=1, last=1, points=[(1, points)]), at_ms=START_MS
    )
    return job_id


def curves(chance: random.Random, first: int, last: int) -> Iterator[MetricPoint]:
    for step in range(first, last):
        at = START_MS / 1000 + 900 + step * STEP_S
        noise = chance.gauss(0, 0.12)
        loss = 1 + 4 * math.exp(-step / 350)
        yield MetricPoint("train/loss", step, at, math.nan if step == 700 else loss + noise)
        yield MetricPoint(
            "train/lr", step, at, min(1, step / 500) * math.cos(max(0, step - 500) / 2000 * 1.4)
        )
        yield MetricPoint("perf/images_per_s", step, at, (1100 if first < 1500 else 1040) + 40 * noise)
        yield MetricPoint("grad/norm", step, at, 30.0 if step == 40 else abs(0.9 + 3 * noise))
        if step % 50 == 0:
            yield MetricPoint("val/top1", step, at, 0.75 * (1 - math.exp(-step / 500)) + noise / 20)
            yield MetricPoint("val/loss", step, at, loss * 1.05 + noise / 4)
        if step % 100 == 0:
            for layer in range(31):
                yield MetricPoint(f"weights/layer{layer}", step, at, math.sin(step / 300 + layer))


def telemetry_sample(attempt: int, number: int) -> dict[str, Any]:
    dip = 0.35 if number % 90 < 8 else 0.97
    return {
        "at": START_MS / 1000 + (attempt - 1) * 3000 + number * 10,
        "cpu": 0.6 + 0.05 * math.sin(number / 3),
        "memory": {"used": 41 * GIB, "total": 200 * GIB},
        "disk": {"used": (80 + number / 10) * GIB, "total": 500 * GIB},
        "net": {"received": 900_000 if number % 60 == 7 else 20_000, "sent": 5_000},
        "gpus": [
            {
                "index": 0,
                "name": "NVIDIA A10",
                "use": dip,
                "memory_used": int(19.8 * GIB),
                "memory_total": 24 * GIB,
                "temperature_c": 71.0,
                "power_w": 140.0,
            }
        ],
    }


async def add_large_job(database: Database, number: int) -> str:
    """Add a job with 200 metrics of 100,000 points each. All have the same values, which are encoded once."""
    events = [*attempt_events(1, Offer(backend="local")), *end_events(1, 1), JobCompleted()]
    job_id = await add_job(database, number, events, name="large")
    await SqlReports(database).record_heartbeat(job_id, 1, at_ms=START_MS)
    chunks = [_chunk(first) for first in range(0, LARGE_POINTS, CHUNK_POINTS)]
    await database.write(lambda connection: _store_large(connection, job_id, chunks))
    return job_id


def _chunk(first: int) -> tuple[int, int, int, bytes, bytes]:
    steps = range(first, min(first + CHUNK_POINTS, LARGE_POINTS))
    chance = random.Random(first)
    points = PointColumns(
        array("q", [step + 1 for step in steps]),
        array("q", steps),
        array("d", [START_MS / 1000 + step * STEP_S for step in steps]),
        array("d", [math.exp(-step / 30_000) + chance.gauss(0, 0.05) for step in steps]),
    )
    return steps[0] + 1, steps[-1] + 1, len(steps), encode_points(sketch(points)), encode_points(points)


def _store_large(
    connection: Connection, job_id: str, chunks: list[tuple[int, int, int, bytes, bytes]]
) -> None:
    record = attempts.lock(connection, job_id, 1)
    record.metric_points = record.sorted_points = LARGE_METRICS * LARGE_POINTS
    record.metric_names = LARGE_METRICS
    attempts.save(connection, record)
    names = [f"group{series % 8}/metric{series:03d}" for series in range(LARGE_METRICS)]
    execute_many(
        connection,
        "INSERT INTO metric_series (attempt_id, series, name, count, low, high, last, last_step, tail_first,"
        " tail_count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (record.id, series, name, LARGE_POINTS, -0.2, 1.2, 0.04, LARGE_POINTS - 1, 0, 0)
            for series, name in enumerate(names)
        ],
    )
    execute_many(
        connection,
        "INSERT INTO metric_chunks (attempt_id, series, first, last, count, sketch, data)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(record.id, series, *chunk) for series in range(LARGE_METRICS) for chunk in chunks],
    )
