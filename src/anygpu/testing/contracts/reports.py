"""Tests that every store for agents' reports must pass."""

import asyncio
import contextlib
import math
from collections.abc import Sequence

import pytest

from anygpu.errors import ReportGap
from anygpu.events.facts import Marks
from anygpu.store.main_metric import spark_of
from anygpu.store.reports import (
    MainMetric,
    MetricPoint,
    MetricSamples,
    ReportBatch,
    Reports,
    ReportState,
    SeriesSummary,
    report_number,
)
from anygpu.testing.samples.jobs import START_MS, job_id

JOB = job_id(1)


def points(*values: float, name: str = "loss", first_step: int = 0) -> list[MetricPoint]:
    return [
        MetricPoint(name, first_step + n, 1000.0 + first_step + n, value) for n, value in enumerate(values)
    ]


async def report(
    store: Reports, seq: int, *, attempt: int = 1, job: str = JOB, **fields: object
) -> ReportState:
    """Store a report with one frame (numbered entry) that has the logs, points and progress in `fields`."""
    framed = {key: [(seq, value)] for key, value in fields.items() if key != "progress"}
    if "progress" in fields:
        framed["progress"] = fields["progress"]  # type: ignore[assignment]
    batch = ReportBatch(first=seq, last=seq, **framed)  # type: ignore[arg-type]
    return await store.ingest(job, attempt, batch, at_ms=START_MS + seq)


async def every_point(store: Reports, *, page: int = 1000, name: str | None = None) -> list[MetricPoint]:
    points_read: list[MetricPoint] = []
    cursor = 0
    while True:
        part, cursor = await store.points(JOB, 1, after=cursor, limit=page, name=name)
        if not part:
            return points_read
        points_read += part


async def whole_log(store: Reports, *, attempt: int = 1, page: int = 1000) -> bytes:
    data = bytearray()
    offset = 0
    while True:
        part = await store.log(JOB, attempt, offset=offset, limit=page)
        if not part.data:
            return bytes(data)
        data += part.data
        offset = part.start + len(part.data)


async def sample(store: Reports, **options: int) -> Sequence[MetricPoint]:
    """Return the stored points of the metric `loss`, reduced for a chart."""
    return (await store.samples(JOB, 1, ["loss"], **options)).points["loss"]


def same(a: Sequence[MetricPoint], b: Sequence[MetricPoint]) -> bool:
    """Return whether two sequences of points are equal. NaN equals NaN."""
    return repr(list(a)) == repr(list(b))


class ReportsContract:
    """Tests of `Reports`. To test a store, subclass this class and provide the fixture `reports`.

    The fixture returns a store with a log quota of 64 KiB.
    """

    async def test_nothing_is_known_of_an_attempt_never_heard_of(self, reports: Reports) -> None:
        assert await reports.state(JOB, 1) == ReportState()
        assert await reports.states([(JOB, 1), (JOB, 2)]) == {
            (JOB, 1): ReportState(),
            (JOB, 2): ReportState(),
        }
        assert await reports.points(JOB, 1, after=0, limit=10) == ([], 0)
        assert not await reports.series(JOB, 1)
        assert await reports.samples(JOB, 1, ["loss"], max_count=10) == MetricSamples()
        assert not await reports.telemetry(JOB, 1, max_count=10)
        assert (await reports.log(JOB, 1, offset=0, limit=10)).data == b""

    async def test_deleting_a_job_deletes_the_reports_of_all_its_attempts(self, reports: Reports) -> None:
        other = job_id(2)
        for job, attempt in ((JOB, 1), (JOB, 2), (other, 1)):
            await report(reports, 1, job=job, attempt=attempt, logs=b"log", telemetry={"cpu": 1})
            await report(reports, 2, job=job, attempt=attempt, points=points(1.0), progress={"step": 1})
        await reports.delete(JOB)
        await reports.delete(JOB)
        await self.test_nothing_is_known_of_an_attempt_never_heard_of(reports)
        assert (await reports.log(JOB, 2, offset=0, limit=9)).data == b""
        assert (await reports.log(other, 1, offset=0, limit=9)).data == b"log"
        assert [series.last for series in await reports.series(other, 1)] == [1.0]

    async def test_of_many_attempts_each_row_is_its_own(self, reports: Reports) -> None:
        for number in (1, 2, 700):
            await reports.record_heartbeat(JOB, number, at_ms=number)
        keys = [*((JOB, number) for number in range(2, 701)), ("another", 1)]
        states = await reports.states(keys)
        assert list(states) == keys
        assert {key: row.last_seen_ms for key, row in states.items() if row.beats} == {
            (JOB, 2): 2,
            (JOB, 700): 700,
        }

    async def test_a_report_is_stored_and_acknowledged(self, reports: Reports) -> None:
        batch = ReportBatch(
            first=1,
            last=5,
            logs=[(1, b"hello "), (5, b"world\n")],
            points=[(2, points(0.5, 0.25))],
            progress={"fraction": 0.5, "message": "half"},
            telemetry=[(3, {"cpu": 0.9})],
            phases=[(4, "training")],
            dropped=[(2, 3)],
        )
        row = await reports.ingest(JOB, 1, batch, at_ms=START_MS)
        assert row == ReportState(
            acked=5,
            beats=1,
            marks=Marks(log_bytes=12, metric_points=2),
            phase="training",
            progress={"fraction": 0.5, "message": "half"},
            telemetry={"cpu": 0.9},
            last_seen_ms=START_MS,
            dropped_points=3,
            main_metric=MainMetric(name="loss", value=0.25, step=1, means=(0.5, 0.25)),
        )
        assert await reports.state(JOB, 1) == row
        assert await reports.states([(JOB, 1)]) == {(JOB, 1): row}
        assert await whole_log(reports) == b"hello world\n"
        assert await every_point(reports) == points(0.5, 0.25)

    async def test_a_beat_is_counted_and_changes_nothing_else(self, reports: Reports) -> None:
        assert await reports.record_heartbeat(JOB, 1, at_ms=START_MS) == ReportState(
            beats=1, last_seen_ms=START_MS
        )
        await report(reports, 1, logs=b"x")
        row = await reports.record_heartbeat(JOB, 1, at_ms=START_MS + 9)
        assert (row.acked, row.beats, row.last_seen_ms) == (1, 3, START_MS + 9)

    async def test_what_comes_twice_is_stored_once(self, reports: Reports) -> None:
        batch = ReportBatch(
            first=1,
            last=3,
            logs=[(1, b"ab")],
            points=[(2, points(1.0))],
            telemetry=[(3, {"n": 1})],
            dropped=[(2, 1)],
        )
        for _ in range(3):
            row = await reports.ingest(JOB, 1, batch, at_ms=START_MS)
        assert (row.acked, row.beats, row.dropped_points) == (3, 3, 1)
        assert row.marks == Marks(log_bytes=2, metric_points=1)
        assert await whole_log(reports) == b"ab"
        assert await every_point(reports) == points(1.0)
        assert len(await reports.telemetry(JOB, 1, max_count=10)) == 1

    async def test_of_an_overlapping_batch_only_the_new_frames_are_stored(self, reports: Reports) -> None:
        letters = [(seq, bytes([96 + seq])) for seq in range(1, 10)]
        for first, last in ((1, 3), (2, 5), (1, 4), (4, 9), (9, 9)):
            batch = ReportBatch(first=first, last=last, logs=letters[first - 1 : last])
            await reports.ingest(JOB, 1, batch, at_ms=START_MS)
        assert await whole_log(reports) == b"abcdefghi"
        assert (await reports.state(JOB, 1)).acked == 9

    async def test_a_gap_is_refused_and_says_what_is_expected(self, reports: Reports) -> None:
        for acked in (0, 1):
            with pytest.raises(ReportGap) as caught:
                await report(reports, acked + 2, logs=b"later")
            assert caught.value.details["expected"] == acked + 1
            await report(reports, acked + 1, logs=b"x")
        assert await whole_log(reports) == b"xx"

    async def test_reports_out_of_order_are_refused_until_they_fit(self, reports: Reports) -> None:
        for seq in (3, 1, 3, 2, 1, 3, 5, 4, 2, 5):
            with contextlib.suppress(ReportGap):
                await report(reports, seq, logs=str(seq).encode())
        assert await whole_log(reports) == b"12345"

    async def test_attempts_and_jobs_are_kept_apart(self, reports: Reports) -> None:
        await report(reports, 1, logs=b"one", points=points(1.0))
        await report(reports, 1, attempt=2, logs=b"two", points=points(2.0))
        await report(reports, 1, job=job_id(2), logs=b"other", points=points(3.0))
        assert await whole_log(reports, attempt=1) == b"one"
        assert await whole_log(reports, attempt=2) == b"two"
        assert (await reports.log(job_id(2), 1, offset=0, limit=10)).data == b"other"
        assert await every_point(reports) == points(1.0)

    async def test_a_late_report_of_an_old_attempt_is_kept_under_it(self, reports: Reports) -> None:
        await report(reports, 1, attempt=1, logs=b"a")
        await report(reports, 1, attempt=2, logs=b"b")
        await report(reports, 2, attempt=1, logs=b"late")
        assert await whole_log(reports, attempt=1) == b"alate"

    async def test_concurrent_copies_of_reports_are_stored_once_in_order(self, reports: Reports) -> None:
        async def send(seq: int) -> None:
            while True:
                try:
                    await report(reports, seq, logs=bytes([64 + seq]), points=points(float(seq)))
                    return
                except ReportGap:
                    await asyncio.sleep(0)

        await asyncio.wait_for(
            asyncio.gather(*(send(seq) for seq in range(1, 16) for _ in range(3))), timeout=30
        )
        assert await whole_log(reports) == bytes(range(65, 80))
        assert [point.value for point in await every_point(reports)] == [float(seq) for seq in range(1, 16)]

    async def test_points_come_in_the_order_stored_after_the_cursor(self, reports: Reports) -> None:
        mixed = [MetricPoint("ab"[n % 2], n, float(n), n / 2) for n in range(10)]
        await report(reports, 1, points=mixed[:7])
        await report(reports, 2, points=mixed[7:])
        assert await reports.points(JOB, 1, after=0, limit=4) == (mixed[:4], 4)
        assert await reports.points(JOB, 1, after=4, limit=4) == (mixed[4:8], 8)
        assert await reports.points(JOB, 1, after=8, limit=4) == (mixed[8:], 10)
        assert await reports.points(JOB, 1, after=10, limit=4) == ([], 10)
        assert await reports.points(JOB, 1, after=3, limit=2, name="b") == ([mixed[3], mixed[5]], 6)
        assert await reports.points(JOB, 1, after=8, limit=2, name="b") == ([mixed[9]], 10)
        assert await reports.points(JOB, 1, after=0, limit=5, name="zzz") == ([], 10)
        assert await reports.points(JOB, 1, after=2, limit=0) == ([], 2)

    async def test_every_point_survives_many_small_and_some_large_reports(self, reports: Reports) -> None:
        sent: list[MetricPoint] = []
        for seq in range(1, 701):
            size = 3000 if seq % 200 == 0 else 1 + seq % 3
            frame = [MetricPoint(f"m{n % 4}", seq, seq + n / 10, math.sin(seq + n)) for n in range(size)]
            sent += frame
            await report(reports, seq, points=frame)
        assert await every_point(reports, page=1777) == sent
        for name in ("m0", "m3"):
            assert await every_point(reports, page=999, name=name) == [p for p in sent if p.name == name]
        summary = next(s for s in await reports.series(JOB, 1) if s.name == "m0")
        values = [point.value for point in sent if point.name == "m0"]
        assert (summary.count, summary.min, summary.max) == (len(values), min(values), max(values))
        assert (summary.last, summary.last_step) == (values[-1], 700)

    async def test_series_are_summed_up(self, reports: Reports) -> None:
        await report(reports, 1, points=[*points(3.0, -1.0), *points(7.0, name="acc")])
        await report(reports, 2, points=points(2.0, first_step=9))
        assert await reports.series(JOB, 1) == [
            SeriesSummary(name="acc", count=1, min=7.0, max=7.0, last=7.0, last_step=0),
            SeriesSummary(name="loss", count=3, min=-1.0, max=3.0, last=2.0, last_step=9),
        ]

    async def test_nan_and_infinities_are_kept_and_extremes_ignore_nan(self, reports: Reports) -> None:
        odd = points(math.nan, 1.0, math.inf, -math.inf, math.nan)
        await report(reports, 1, points=odd)
        await report(reports, 2, points=points(math.nan, name="bad"))
        assert same(await every_point(reports, name="loss"), odd)
        bad, loss = await reports.series(JOB, 1)
        assert (loss.min, loss.max) == (-math.inf, math.inf)
        assert math.isnan(loss.last)
        assert (bad.count, math.isnan(bad.min), math.isnan(bad.max)) == (1, True, True)
        assert same(await sample(reports, max_count=100), odd)

    async def test_very_large_and_negative_steps_are_kept(self, reports: Reports) -> None:
        extreme = [MetricPoint("loss", step, 0.0, 1.0) for step in (2**62 - 1, -(2**62) + 1, 0, -5)]
        await report(reports, 1, points=extreme)
        assert await every_point(reports) == extreme

    async def test_a_sample_keeps_the_extremes_the_first_and_the_last(self, reports: Reports) -> None:
        values = [math.sin(n / 300) for n in range(30_000)]
        values[12_345], values[23_456] = 99.0, -99.0
        sent = points(*values)
        for seq, start in enumerate(range(0, 30_000, 2500), 1):
            await report(reports, seq, points=sent[start : start + 2500])
        for most in (50, 400, 5000):
            chosen = await sample(reports, max_count=most)
            assert most / 3 < len(chosen) <= most
            assert set(chosen) <= set(sent)
            assert [point.step for point in chosen] == sorted(point.step for point in chosen)
            assert (chosen[0], chosen[-1]) == (sent[0], sent[-1])
            assert {sent[12_345], sent[23_456]} <= set(chosen)
        assert await sample(reports, max_count=30_000) == sent

    async def test_a_sample_of_a_stretch_of_nan_shows_it(self, reports: Reports) -> None:
        values = [1.0] * 4000 + [math.nan] * 4000 + [2.0] * 4000
        await report(reports, 1, points=points(*values))
        chosen = await sample(reports, max_count=100)
        assert any(math.isnan(point.value) for point in chosen)
        assert {1.0, 2.0} <= {point.value for point in chosen}

    async def test_a_sample_shows_a_single_nan_between_many_numbers(self, reports: Reports) -> None:
        values = [math.sin(n) for n in range(30_000)]
        values[17_000] = math.nan
        sent = points(*values)
        for seq, start in enumerate(range(0, 30_000, 2500), 1):
            await report(reports, seq, points=sent[start : start + 2500])
        chosen = await sample(reports, max_count=90)
        assert len(chosen) <= 90
        assert [point.step for point in chosen if math.isnan(point.value)] == [17_000]

    async def test_samples_of_several_metrics_come_together(self, reports: Reports) -> None:
        await report(reports, 1, points=[*points(1.0, 2.0), *points(5.0, name="acc")])
        await report(reports, 2, points=points(3.0, first_step=2))
        samples = await reports.samples(JOB, 1, ["acc", "loss", "missing", "loss"], max_count=10)
        assert samples.points == {"acc": points(5.0, name="acc"), "loss": points(1.0, 2.0, 3.0)}
        assert (samples.counts, samples.cursor) == ({"acc": 1, "loss": 3}, 4)
        assert await reports.samples(JOB, 1, [], max_count=10) == MetricSamples(cursor=4)

    async def test_a_sample_of_a_range_of_steps_has_every_point_in_it(self, reports: Reports) -> None:
        sent = points(*(math.sin(n / 300) for n in range(40_000)))
        for seq, start in enumerate(range(0, 40_000, 2500), 1):
            await report(reports, seq, points=sent[start : start + 2500])
        assert await sample(reports, max_count=600, from_step=12_000, to_step=12_499) == sent[12_000:12_500]
        assert await sample(reports, max_count=600, from_step=39_900) == sent[39_900:]
        assert await sample(reports, max_count=600, to_step=-1) == []
        wide = await sample(reports, max_count=60, from_step=5000, to_step=35_000)
        assert len(wide) <= 60
        assert all(5000 <= point.step <= 35_000 for point in wide)

    async def test_a_range_finds_steps_that_were_reported_out_of_order(self, reports: Reports) -> None:
        steps = [*range(20_000, 40_000), *range(20_000)]
        sent = [MetricPoint("loss", step, 0.0, float(step)) for step in steps]
        for seq, start in enumerate(range(0, 40_000, 2000), 1):
            await report(reports, seq, points=sent[start : start + 2000])
        chosen = await sample(reports, max_count=1000, from_step=19_990, to_step=20_009)
        assert [point.step for point in chosen] == [*range(20_000, 20_010), *range(19_990, 20_000)]

    async def test_too_many_and_too_long_names_are_dropped_and_counted(self, reports: Reports) -> None:
        await report(reports, 1, points=[MetricPoint(f"n{n}", 0, 0.0, 0.0) for n in range(1200)])
        row = await report(
            reports, 2, points=[MetricPoint("x" * 201, 0, 0.0, 0.0), MetricPoint("n5", 1, 0.0, 5.0)]
        )
        assert row.acked == 2
        assert row.dropped_points == 201
        assert row.marks.metric_points == 1001
        assert len(await reports.series(JOB, 1)) == 1000
        assert (await every_point(reports))[-1] == MetricPoint("n5", 1, 0.0, 5.0)

    async def test_a_log_is_read_from_any_offset_and_from_the_end(self, reports: Reports) -> None:
        await report(reports, 1, logs=b"0123456789")
        await report(reports, 2, logs=b"abcdef")
        cases = {(0, 4): (0, b"0123"), (8, 4): (8, b"89ab"), (-3, 10): (13, b"def"), (-99, 3): (0, b"012")}
        for (offset, limit), (start, data) in cases.items():
            part = await reports.log(JOB, 1, offset=offset, limit=limit)
            assert (part.start, part.data, part.end) == (start, data, 16)
        for offset in (16, 99):
            part = await reports.log(JOB, 1, offset=offset, limit=5)
            assert (part.start, part.data, part.end) == (16, b"", 16)

    async def test_any_bytes_survive_many_small_writes(self, reports: Reports) -> None:
        lines = [bytes([n % 256]) * (n % 97) + b"\r\n\x00\xff" for n in range(300)]
        for seq, line in enumerate(lines, 1):
            await report(reports, seq, logs=line)
        assert await whole_log(reports, page=777) == b"".join(lines)

    async def test_beyond_the_quota_the_beginning_and_the_newest_stay(self, reports: Reports) -> None:
        quota = 64 * 1024
        sent = b"".join(b"%07d\n" % n for n in range(40_000))
        for seq, start in enumerate(range(0, len(sent), 3001), 1):
            await report(reports, seq, logs=sent[start : start + 3001])
        assert (await reports.state(JOB, 1)).marks.log_bytes == len(sent)
        head = await reports.log(JOB, 1, offset=0, limit=10 * quota)
        assert (head.start, head.end) == (0, len(sent))
        assert head.data == sent[: quota // 4]
        rest = await reports.log(JOB, 1, offset=len(head.data), limit=10 * quota)
        assert rest.start > len(head.data)
        assert rest.data == sent[rest.start :]
        assert quota // 2 < len(head.data) + len(rest.data) <= quota
        tail = await reports.log(JOB, 1, offset=-100, limit=100)
        assert tail.data == sent[-100:]

    async def test_the_quota_is_of_the_job_and_the_oldest_attempt_pays_first(self, reports: Reports) -> None:
        quota = 64 * 1024
        await report(reports, 1, attempt=1, logs=b"1" * quota)
        await report(reports, 1, attempt=2, logs=b"2" * (quota // 2))
        first = await whole_log(reports, attempt=1, page=quota)
        second = await whole_log(reports, attempt=2, page=quota)
        assert second == b"2" * (quota // 2)
        assert quota // 4 <= len(first) <= quota // 2

    async def test_the_quota_takes_from_all_nodes_of_the_oldest_attempt_first(self, reports: Reports) -> None:
        kib, other = 1024, report_number(1, 1)
        await report(reports, 1, attempt=1, logs=b"a" * 8 * kib)
        await report(reports, 1, attempt=other, logs=b"b" * 56 * kib)
        await report(reports, 1, attempt=2, logs=b"c" * 24 * kib)
        logs = [await whole_log(reports, attempt=number, page=64 * kib) for number in (1, other, 2)]
        assert [len(logs[0]), len(logs[2])] == [8 * kib, 24 * kib]
        assert 8 * kib <= len(logs[1]) <= 32 * kib

    async def test_the_node_with_the_longest_log_pays_first(self, reports: Reports) -> None:
        kib, chatty = 1024, report_number(1, 3)
        await report(reports, 1, attempt=1, logs=b"a" * 30 * kib)
        await report(reports, 1, attempt=chatty, logs=b"b" * 34 * kib)
        await report(reports, 2, attempt=chatty, logs=b"c" * 20 * kib)
        assert await whole_log(reports, attempt=1, page=64 * kib) == b"a" * 30 * kib
        rest = await whole_log(reports, attempt=chatty, page=64 * kib)
        assert rest.endswith(b"c" * 20 * kib)
        assert len(rest) <= 34 * kib

    async def test_one_report_larger_than_the_quota_is_no_error(self, reports: Reports) -> None:
        sent = bytes(range(256)) * 1024
        await report(reports, 1, logs=sent)
        assert (await reports.log(JOB, 1, offset=-50, limit=50)).data == sent[-50:]
        assert (await reports.log(JOB, 1, offset=0, limit=50)).data == sent[:50]

    async def test_telemetry_is_thinned_evenly_and_ends_with_the_newest(self, reports: Reports) -> None:
        for seq in range(1, 51):
            await report(reports, seq, telemetry={"n": seq, "gpus": [{"use": 0.5}]})
        history = await reports.telemetry(JOB, 1, max_count=10)
        assert [sample["n"] for sample in history] == list(range(5, 51, 5))
        assert len(await reports.telemetry(JOB, 1, max_count=1000)) == 50
        assert (await reports.state(JOB, 1)).telemetry == {"n": 50, "gpus": [{"use": 0.5}]}

    async def test_telemetry_of_a_period_is_thinned_after_it_is_selected(self, reports: Reports) -> None:
        for seq in range(1, 51):
            await report(reports, seq, telemetry={"at": 1000.0 + seq})
        await report(reports, 51, telemetry={"at": "unknown"})

        async def times(**options: float) -> list[float]:
            found = await reports.telemetry(JOB, 1, max_count=10, **options)
            return [sample["at"] - 1000 for sample in found]

        assert await times(from_s=1021.0, to_s=1030.0) == [*range(21, 31)]
        assert await times(from_s=1031.0) == [*range(32, 51, 2)]
        assert await times(to_s=1003.0) == [1, 2, 3]
        assert await times(from_s=1051.0) == []

    async def test_the_main_metric_is_kept_with_a_short_curve(self, reports: Reports) -> None:
        state = await report(reports, 1, points=points(*range(100)))
        assert state.main_metric is not None
        assert (state.main_metric.name, state.main_metric.value, state.main_metric.step) == ("loss", 99.0, 99)
        spark = spark_of(state.main_metric)
        assert len(spark) <= 32
        assert spark == sorted(spark)
        state = await report(reports, 2, points=points(0.5, 0.75, name="val/acc", first_step=100))
        assert state.main_metric is not None
        assert (state.main_metric.name, spark_of(state.main_metric)) == ("val/acc", [0.5, 0.75])
        assert await reports.state(JOB, 1) == state

    async def test_the_main_metric_continues_in_the_next_attempt(self, reports: Reports) -> None:
        await report(reports, 1, points=points(3.0, 2.0))
        await report(reports, 1, attempt=2, logs=b"started")
        state = await report(reports, 2, attempt=2, points=points(1.0, first_step=2))
        assert state.main_metric is not None
        assert spark_of(state.main_metric) == [3.0, 2.0, 1.0]

    async def test_the_main_metric_has_a_value_that_is_not_a_number_only_as_its_newest(
        self, reports: Reports
    ) -> None:
        state = await report(reports, 1, points=points(1.0, math.nan))
        assert state.main_metric is not None
        assert math.isnan(state.main_metric.value)
        assert spark_of(state.main_metric) == [1.0]
        stored = (await reports.state(JOB, 1)).main_metric
        assert stored is not None
        assert math.isnan(stored.value)
