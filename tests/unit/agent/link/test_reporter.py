"""Reports are collected and written to the spool in batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from anygpu.agent.link.reporter import POINTS_PER_FRAME, Reporter
from anygpu.agent.link.spool import Spool, decode_frames


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(str(tmp_path), 2**28)


@pytest.fixture
def reporter(spool: Spool, clock: Clock) -> Reporter:
    return Reporter(spool, every_s=0.2, frame_bytes=100, wake_sender=lambda: None, clock=clock)


def kinds(spool: Spool) -> list[str]:
    return [header["kind"] for header, *_ in decode_frames(spool.batch(2**20)[2])]


def test_the_first_output_is_written_at_once_and_the_next_after_the_interval(
    reporter: Reporter, spool: Spool, clock: Clock
) -> None:
    reporter.write_output(b"first")
    assert kinds(spool) == ["log"]
    reporter.write_output(b"second")
    assert kinds(spool) == ["log"]
    assert reporter.due_at == pytest.approx(100.2)
    clock.now = 100.3
    reporter.flush_when_due()
    assert kinds(spool) == ["log", "log"]


def test_the_interval_grows_to_a_second(reporter: Reporter, clock: Clock) -> None:
    clock.now = 200.0
    reporter.write_output(b"a")
    reporter.write_output(b"b")
    assert reporter.due_at == pytest.approx(201.0)


def test_much_output_is_split_into_frames(reporter: Reporter, spool: Spool) -> None:
    reporter.write_output(b"x" * 250)
    reporter.flush()
    assert [header["n"] for header, *_ in decode_frames(spool.batch(2**20)[2])] == [100, 100, 50]


def test_a_message_of_the_agent_is_a_line_of_its_own(reporter: Reporter, spool: Spool) -> None:
    reporter.write_output(b" 50 %\r")
    reporter.write_line("one")
    reporter.write_line("two")
    reporter.flush()
    body = spool.batch(2**20)[2]
    output = b"".join(body[start : start + header["n"]] for header, _, start, _ in decode_frames(body))
    assert output == b" 50 %\r\n[anygpu] one\n[anygpu] two\n"


def test_many_points_are_split_into_frames(reporter: Reporter, spool: Spool) -> None:
    reporter.add_points([("loss", step, 1.0, 0.5) for step in range(POINTS_PER_FRAME + 1)])
    reporter.flush()
    assert kinds(spool) == ["metrics", "metrics"]
    assert (reporter.last_seq, reporter.acked_seq) == (2, 0)


def test_a_phase_comes_after_the_output_before_it(reporter: Reporter, spool: Spool, clock: Clock) -> None:
    reporter.write_output(b"a")
    reporter.write_output(b"b")
    reporter.start_phase("training")
    assert kinds(spool) == ["log", "log", "phase"]


def test_progress_of_the_script_replaces_what_was_read_from_its_output(
    reporter: Reporter, spool: Spool
) -> None:
    reporter.update_progress({"fraction": 0.01, "epoch": 1, "epochs": 100, "first_epoch": 1})
    reporter.replace_progress({"epoch": 50, "epochs": 100})
    reporter.flush()
    last = list(decode_frames(spool.batch(2**20)[2]))[-1][0]
    reported = {name: last.get(name) for name in ("fraction", "epoch", "epochs", "first_epoch")}
    assert reported == {"fraction": None, "epoch": 50, "epochs": 100, "first_epoch": 1}


def test_a_watched_job_always_reports_at_the_short_interval(spool: Spool, clock: Clock) -> None:
    watched = False
    reporter = Reporter(
        spool,
        every_s=0.2,
        frame_bytes=100,
        wake_sender=lambda: None,
        clock=clock,
        is_watched=lambda: watched,
    )
    clock.now += 600
    reporter.add_points([("loss", 1, 0.5, 0.0)])
    reporter.add_points([("loss", 2, 0.5, 0.0)])
    assert reporter.due_at == pytest.approx(clock.now + 1.0)
    reporter.flush()
    watched = True
    reporter.add_points([("loss", 3, 0.5, 0.0)])
    assert reporter.due_at == pytest.approx(clock.now + 0.2)
