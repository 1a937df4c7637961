"""How metrics and telemetry are stored as they grow."""

from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import fetch_all, fetch_one
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.reports import JOB, every_point, points, report
from anygpu.testing.samples.jobs import START_MS


async def test_points_are_sorted_into_chunks_as_they_grow(database: Database) -> None:
    evidence = SqlReports(database)
    sent = [MetricPoint(f"m{n % 3}", n, n / 8, float(n % 1000)) for n in range(40_000)]
    for seq, start in enumerate(range(0, 40_000, 500), 1):
        await report(evidence, seq, points=sent[start : start + 500])
    chunks = await database.read(lambda c: fetch_all(c, "SELECT count FROM metric_chunks"))
    assert 6 <= len(chunks) <= 24
    assert await every_point(evidence, page=7000) == sent
    assert await every_point(evidence, page=7000, name="m1") == sent[1::3]
    found = await evidence.samples(JOB, 1, ["m2"], max_count=60)
    assert {0.0, 999.0} <= {point.value for point in found.points["m2"]}


async def test_small_batches_are_merged(database: Database) -> None:
    evidence = SqlReports(database)
    for seq in range(1, 601):
        await report(evidence, seq, points=points(float(seq), first_step=seq))
    found = await database.read(lambda c: fetch_one(c, "SELECT count(*) FROM metric_batches"))
    assert found is not None
    assert found[0] <= 100
    assert [point.step for point in await every_point(evidence)] == list(range(1, 601))


async def test_telemetry_is_thinned_as_it_grows(database: Database) -> None:
    evidence = SqlReports(database)
    for first in range(1, 5001, 500):
        frames = [(seq, {"n": seq}) for seq in range(first, first + 500)]
        batch = ReportBatch(first=first, last=first + 499, telemetry=frames)
        await evidence.ingest(JOB, 1, batch, at_ms=START_MS)
    history = [sample["n"] for sample in await evidence.telemetry(JOB, 1, max_count=10_000)]
    assert 1000 <= len(history) <= 2001
    assert history == sorted(history)
    assert history[-1] == 5000
