"""Tests of reading logs by line and searching them, which every store for agents' reports must pass."""

import random

import pytest

from anygpu.errors import InvalidSpec
from anygpu.store.logs.page import LinePage, LogLine
from anygpu.store.logs.search import LogPattern
from anygpu.store.reports import ReportBatch, Reports
from anygpu.testing.contracts.reports import JOB, report, whole_log
from anygpu.testing.samples.jobs import START_MS


async def page(store: Reports, first: int, count: int = 10, *, attempt: int = 1) -> LinePage:
    return await store.log_lines(JOB, attempt, first=first, count=count)


async def texts(store: Reports, first: int, count: int = 10) -> list[tuple[int, str]]:
    return [(line.number, line.text) for line in (await page(store, first, count)).lines]


async def write(store: Reports, *parts: bytes, first_seq: int = 1) -> None:
    for seq, part in enumerate(parts, first_seq):
        await report(store, seq, logs=part)


async def search(
    store: Reports,
    text: str,
    *,
    after: int | None = None,
    before: int | None = None,
    limit: int = 10**6,
    **options: bool,
) -> list[LogLine]:
    """Search until the end of the log, and check that the count equals the number of lines."""
    pattern = LogPattern(text, **options)
    found: list[LogLine] = []
    while True:
        portion = await store.search_log(JOB, 1, pattern, after=after, before=before, limit=limit)
        assert portion.count == len(portion.lines) or len(portion.lines) == limit
        found += portion.lines
        if portion.next is None:
            return found
        after, before = (None, portion.next) if before is not None else (portion.next, None)


class LogLinesContract:
    """Tests of `Reports.log_lines` and `Reports.search_log`. The fixture `reports` has a log quota of 64 KiB."""

    async def test_an_attempt_without_output_has_no_lines(self, reports: Reports) -> None:
        assert await page(reports, 1) == LinePage()
        assert await search(reports, "x") == []
        await reports.record_heartbeat(JOB, 1, at_ms=START_MS)
        assert await page(reports, -5) == LinePage()
        assert await search(reports, "x", before=10) == []

    async def test_lines_are_read_by_number_and_from_the_end(self, reports: Reports) -> None:
        await write(reports, b"one\ntw", b"o\n\nfo", b"ur")
        assert await texts(reports, 1) == [(1, "one"), (2, "two"), (3, ""), (4, "four")]
        assert await texts(reports, 2, 2) == [(2, "two"), (3, "")]
        assert await texts(reports, -2) == [(3, ""), (4, "four")]
        assert await texts(reports, -99, 1) == [(1, "one")]
        assert await texts(reports, 5) == []
        shown = await page(reports, 2)
        assert [line.offset for line in shown.lines] == [4, 8, 9]
        assert (shown.total_lines, shown.total_bytes) == (4, 13)

    async def test_a_line_end_at_the_end_starts_no_line(self, reports: Reports) -> None:
        await write(reports, b"one\n")
        assert (await page(reports, -1)).total_lines == 1
        assert await texts(reports, -1) == [(1, "one")]
        await write(reports, b"two", first_seq=2)
        assert await texts(reports, -1) == [(2, "two")]

    async def test_any_lines_survive_any_division_into_reports(self, reports: Reports) -> None:
        chance = random.Random(7)
        sent = b"".join(b"%d %s\n" % (n, b"x" * chance.choice((0, 5, 80, 900))) for n in range(400))[:60_000]
        at, seq = 0, 0
        while at < len(sent):
            size, seq = chance.choice((1, 7, 100, 5000)), seq + 1
            await report(reports, seq, logs=sent[at : at + size])
            at += size
        expected = list(enumerate(sent.decode().split("\n"), 1))
        for first in (1, 2, 57, 200, len(expected) - 3):
            assert await texts(reports, first, 30) == expected[first - 1 : first + 29]

    async def test_of_a_progress_bar_the_last_state_is_one_line(self, reports: Reports) -> None:
        await write(reports, b"start\n\r 1%\r 2%", b"\r100%\ndone\r\nbar 5%\r      \r", b"\n")
        assert await texts(reports, 1) == [(1, "start"), (2, "100%"), (3, "done"), (4, "bar 5%")]

    async def test_a_long_bar_is_one_line(self, reports: Reports) -> None:
        bar = b"".join(b"\r%5d/2000" % n for n in range(2001))
        await write(reports, b"before\n", bar[:9_000], bar[9_000:] + b"\nafter\n", bar[:-11])
        assert await texts(reports, 1) == [(1, "before"), (2, " 2000/2000"), (3, "after"), (4, " 1999/2000")]
        assert await texts(reports, 3, 1) == [(3, "after")]

    async def test_invalid_utf8_is_replaced_and_colours_stay(self, reports: Reports) -> None:
        await write(reports, b"\xff\xc3\xa9\x1b[31mred\x1b[0m\x00\n")
        assert await texts(reports, 1) == [(1, "\ufffdé\x1b[31mred\x1b[0m\x00")]

    async def test_a_long_line_is_cut_and_says_where_its_rest_is(self, reports: Reports) -> None:
        long = "é".encode() * 10_000
        await write(reports, b"a\n" + long + b"\nb\n")
        line = (await page(reports, 2, 1)).lines[0]
        assert line.rest is not None
        stored = await whole_log(reports)
        assert line.text.encode() + stored[line.rest : 2 + len(long)] == long
        assert await texts(reports, 3) == [(3, "b")]

    async def test_a_page_of_long_lines_is_limited(self, reports: Reports) -> None:
        await write(reports, *[b"z" * 30_000 + b"\n" + b"y\n" * 300 for _ in range(2)])
        assert len((await page(reports, 1, 1000)).lines) == 602
        assert len((await page(reports, 1, 1)).lines) == 1

    async def test_lines_know_when_they_arrived(self, reports: Reports) -> None:
        sent_s = {1: 0, 2: 3, 3: 60, 4: 61, 5: 100}
        for seq, at_s in sent_s.items():
            batch = ReportBatch(first=seq, last=seq, logs=[(seq, b"a\nb\n" if seq < 4 else b"a\nb")])
            await reports.ingest(JOB, 1, batch, at_ms=START_MS + at_s * 1000)
        times = [line.at_ms for line in (await page(reports, 1)).lines]
        assert [at and (at - START_MS) // 1000 for at in times] == [0, 0, 0, 0, 60, 60, 60, 60, 100]

    async def test_beyond_the_quota_lines_keep_their_numbers(self, reports: Reports) -> None:
        sent = [f"line {n} {'x' * (n % 50)}" for n in range(1, 8001)]
        data = "\n".join(sent).encode()
        for seq, start in enumerate(range(0, len(data), 3001), 1):
            await report(reports, seq, logs=data[start : start + 3001])
        assert (await page(reports, 1)).total_lines == 8000
        assert await texts(reports, 1, 3) == list(enumerate(sent[:3], 1))
        assert await texts(reports, -3) == [(n, sent[n - 1]) for n in (7998, 7999, 8000)]
        kept = (await search(reports, "line ", before=8001))[::-1]
        first = next(line.number for line in kept if line.number > 3000)
        assert [line.number for line in (await page(reports, 3000, 2)).lines] == [first, first + 1]
        assert await texts(reports, first, 20) == [(n, sent[n - 1]) for n in range(first, first + 20)]
        assert [line.number for line in kept if line.number > 3000] == list(range(first, 8001))

    async def test_a_search_finds_lines_with_their_numbers_in_both_directions(self, reports: Reports) -> None:
        await write(reports, b"loss 1\nacc 2\nLoss 3\nloss 4 loss\nend")
        assert [(hit.number, hit.offset, hit.text) for hit in await search(reports, "loss")] == [
            (1, 0, "loss 1"),
            (3, 13, "Loss 3"),
            (4, 20, "loss 4 loss"),
        ]
        assert [hit.number for hit in await search(reports, "loss", before=4)] == [3, 1]
        assert [hit.number for hit in await search(reports, "loss", after=1)] == [3, 4]
        assert [hit.number for hit in await search(reports, "loss", case_sensitive=True)] == [1, 4]
        assert [hit.number for hit in await search(reports, "END", before=100)] == [5]
        assert await search(reports, "nothing") == []

    async def test_plain_text_is_not_an_expression(self, reports: Reports) -> None:
        await write(reports, b"a.b (x)\naxb\n")
        assert [hit.number for hit in await search(reports, "a.b (")] == [1]
        assert [hit.number for hit in await search(reports, "a.b", is_regex=True)] == [1, 2]

    async def test_an_expression_matches_within_a_line(self, reports: Reports) -> None:
        await write(reports, b"step 1\nstep 22\n\nstop\n")
        assert [hit.number for hit in await search(reports, r"^step \d+$", is_regex=True)] == [1, 2]
        assert [hit.number for hit in await search(reports, r"step[^x]*stop", is_regex=True)] == []
        assert [hit.number for hit in await search(reports, "^$", is_regex=True)] == [3]
        assert [hit.number for hit in await search(reports, "", is_regex=True, before=9)] == [4, 3, 2, 1]

    async def test_a_search_sees_what_a_reader_sees(self, reports: Reports) -> None:
        await write(reports, b"\x1b[31mER\x1b[1mROR\x1b[0m here\n\r 1%\r 2%\r 3%\nend\n")
        assert [hit.number for hit in await search(reports, "error here")] == [1]
        assert [hit.number for hit in await search(reports, "31m")] == []
        assert [hit.number for hit in await search(reports, "2%")] == []
        assert [(hit.number, hit.text) for hit in await search(reports, "3%")] == [(2, " 3%")]

    async def test_a_search_returns_at_most_the_limit_and_counts_all(self, reports: Reports) -> None:
        await write(reports, b"x\ny\n" * 100)
        pattern = LogPattern("x")
        forward = await reports.search_log(JOB, 1, pattern, after=0, before=None, limit=2)
        assert ([line.number for line in forward.lines], forward.count) == ([1, 3], 100)
        backward = await reports.search_log(JOB, 1, pattern, after=None, before=1000, limit=2)
        assert ([line.number for line in backward.lines], backward.count) == ([199, 197], 100)

    async def test_an_invalid_expression_is_refused(self, reports: Reports) -> None:
        for text in ("(", "(?=a)", r"\1", "a{9999}"):
            with pytest.raises(InvalidSpec, match="regular expression"):
                LogPattern(text, is_regex=True)
