"""Measure lists over a hundred thousand jobs and a chart of a million points."""

import asyncio
import contextlib
import json
import random
import shutil
import time
from pathlib import Path

from anygpu.events.offers import Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunching,
    AttemptReleased,
    Event,
    JobCompleted,
    JobSubmitted,
)
from anygpu.events.view import FOLD_VERSION
from anygpu.spec.load import from_mapping
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.schema import SCHEMA_VERSION
from bench.peers import HOME
from bench.server import BenchServer, Figure, quantile_ms

SIZES = 100_000, 1_000_000  # jobs, points
QUICK_SIZES = 300, 20_000
AT_MS = 1_750_000_000_000
LONG = "01980000-0000-7000-9000-000000000000"
WORDS = ["resnet", "yolo", "bert", "gpt", "digits", "helmets", "ablation", "baseline", "sweep", "night"]


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    jobs, points = QUICK_SIZES if quick else SIZES
    return [_pages(server, jobs), _series(server, points)]


def fill(state: Path, *, quick: bool = False) -> None:
    """Write the jobs and the long series through the store itself. A full database is kept for later runs."""
    if quick:
        asyncio.run(_fill(state, *QUICK_SIZES))
        return
    kept = HOME / f"jobs-{SCHEMA_VERSION}-{FOLD_VERSION}"
    if not (kept / "done").exists():
        print(f"filling {SIZES[0]:,} jobs (once, a few minutes)", flush=True)
        shutil.rmtree(kept, ignore_errors=True)
        asyncio.run(_fill(kept, *SIZES))
        (kept / "done").touch()
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copy(kept / "anygpu.db", state / "anygpu.db")


async def _fill(state: Path, jobs: int, points: int) -> None:
    from bench.filling import open_stores

    chance = random.Random(1)
    scope = Scope(organisation="local", project="default", person="bench")
    async with open_stores(state) as (journal, evidence):
        ids = [f"01980000-0000-7000-8000-{n:012x}" for n in range(jobs)]
        for start in range(0, jobs, 500):
            await asyncio.gather(*(_job(journal, scope, chance, i) for i in ids[start : start + 500]))
        await journal.submit(scope, LONG, JobSubmitted(spec=from_mapping({"command": "true"})), at_ms=AT_MS)
        await journal.transact(scope, LONG, lambda view: whole_attempt(), at_ms=AT_MS)
        for first in range(0, points, 10_000):
            batch = [MetricPoint("loss", s, s * 0.1, chance.random()) for s in range(first, first + 10_000)]
            seq = first // 10_000 + 1
            await evidence.ingest(LONG, 1, ReportBatch(first=seq, last=seq, points=[(seq, batch)]), at_ms=1)


async def _job(journal, scope: Scope, chance: random.Random, job_id: str) -> None:  # type: ignore[no-untyped-def]
    spec = from_mapping(
        {
            "command": f"python train.py --model {chance.choice(WORDS)}",
            "name": f"{chance.choice(WORDS)}-{chance.randrange(10_000)}",
            "resources": {"gpu": "H100:8"},  # nothing here may start
            "tags": [chance.choice(WORDS), "rare" if chance.random() < 0.0005 else "common"],
        }
    )
    at_ms = AT_MS + int(job_id[-12:], 16) * 1000
    await journal.submit(scope, job_id, JobSubmitted(spec=spec, person="bench"), at_ms=at_ms)
    if chance.random() < 0.999:
        await journal.transact(scope, job_id, lambda view: [JobCompleted()], at_ms=at_ms + 1)


def whole_attempt() -> list[Event]:
    offer = Offer(backend="local")
    return [
        AttemptLaunching(attempt=1, name="anygpu-long-1", offer=offer, ticket_sha256=""),
        AttemptClaimed(attempt=1, claimant="bench"),
        AttemptEnded(attempt=1, outcome="exited", exit_code=0),
        AttemptReleased(attempt=1),
        JobCompleted(),
    ]


QUERIES = [
    "",
    "status=completed",
    "status=queued",
    "status=failed",
    "phase=ended",
    "tag=rare",
    "tag=common&status=completed",
    "tag=rare&status=queued",
    "q=yolo",
    "q=yol",
    "q=resnet+night",
    "name=bert-77",
    "person=bench&q=abl",
    "backend=local",
    "after_ms=1750050000000&before_ms=1750051000000",
    "q=gpt&tag=night&status=completed",
]


def _pages(server: BenchServer, jobs: int) -> Figure:
    samples: list[float] = []
    worst: dict[str, float] = {}
    with contextlib.closing(server.connect()) as connection:
        _get(
            server, connection, "/api/v1/training?limit=50"
        )  # the first request of a server loads what it needs
        for _ in range(3):
            for query in QUERIES:
                cursor = ""
                for _ in range(5):
                    took, answer = _get(server, connection, f"/api/v1/training?limit=50&{query}{cursor}")
                    samples.append(took)
                    worst[query] = max(worst.get(query, 0), took)
                    if not answer["next_cursor"]:
                        break
                    cursor = f"&cursor={answer['next_cursor']}"
        cursor = ""
        for _ in range(40):
            took, answer = _get(server, connection, f"/api/v1/training?limit=200{cursor}")
            samples.append(took)
            if not answer["next_cursor"]:
                break
            cursor = f"&cursor={answer['next_cursor']}"
    p99 = quantile_ms(samples, 0.99)
    slow = max(worst, key=lambda q: worst[q])
    return Figure(
        what=f"one page of a list of {jobs:,} jobs",
        ours=f"p50 {quantile_ms(samples, 0.5):.0f} ms, p99 {p99:.0f} ms",
        against=f"slowest filter: `{slow or 'none'}` {worst[slow] * 1000:.0f} ms",
        ratio="",
        target="p99 under 50 ms",
        met=p99 < 50,
        how=f"{len(samples)} requests with all filters, first and later pages",
    )


def _get(server: BenchServer, connection, path: str):  # type: ignore[no-untyped-def]
    started = time.perf_counter()
    connection.request("GET", path, headers=server.headers)
    answer = connection.getresponse()
    text = answer.read()
    took = time.perf_counter() - started
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {text[:300]!r}")
    return took, json.loads(text)


def _series(server: BenchServer, points: int) -> Figure:
    samples = []
    with contextlib.closing(server.connect()) as connection:
        for _ in range(10):
            path = f"/api/v1/training/{LONG}/metrics?attempt=1&name=loss&points=1000"
            took, answer = _get(server, connection, path)
            samples.append(took)
    count = len(answer["series"][0]["points"])
    return Figure(
        what=f"a metric of {points:,} points, reduced to 1,000 for a chart",
        ours=f"{quantile_ms(samples, 0.5):.0f} ms",
        against="",
        ratio="",
        target="under 100 ms",
        met=quantile_ms(samples, 0.5) < 100 and 0 < count <= 1000,
        how="median of 10",
    )
