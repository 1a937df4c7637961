"""What people see: lists, a job in words, the dashboard, events, the demo's report."""

from dataclasses import replace
from typing import Any

from anygpu.cli import jobs
from anygpu.cli.bar import Pulse
from anygpu.cli.curves import Curve, Curves
from anygpu.cli.dashboard import Dashboard, machine
from anygpu.cli.demo.report import Report
from anygpu.cli.events import line
from anygpu.cli.screen import last_shown


def job(**parts: Any) -> dict[str, Any]:
    made = {
        "id": "01993f0a-1c2d-7000-8000-000000000001",
        "name": "digits",
        "status": "running",
        "phase": "training",
        "submitted_at": "2030-01-01T00:00:00.000Z",
        "ended_at": "2030-01-01T00:01:30.000Z",
        "backend": "local",
        "progress": {"fraction": 0.43, "epoch": 3, "epochs": 7},
        "metrics": {"loss": 0.123456},
        "attempts": [],
    }
    return {**made, **parts}


def test_a_phase_is_shown_where_it_says_more_than_the_status() -> None:
    assert jobs.status(job()) == "running"
    assert jobs.status(job(phase="recovering")) == "running (recovering)"
    assert jobs.status(job(status="failed", phase="ended")) == "failed"


def test_a_list_has_a_line_for_each_job() -> None:
    heading, row = jobs.rows([job()], colour=False, columns=200)
    assert heading.split() == ["ID", "NAME", "STATUS", "PROGRESS", "TOOK", "SUBMITTED", "BACKEND", "METRICS"]
    assert row.startswith("01993f0a-1c2d  digits  running  43%       1m30s")
    assert row.endswith("local    loss=0.1235")


def test_a_failed_job_says_why_what_was_lost_and_each_attempt() -> None:
    tried = {"number": 1, "backend": "local", "outcome": "exited", "exit_code": 3, "launching_at": None}
    failure = {"code": "exit_code", "message": "the script exited with code 3", "blame": "user"}
    text = "\n".join(
        jobs.describe(job(status="failed", failure=failure, work_lost_s=2.0, attempts=[tried]), colour=False)
    )
    assert "the script exited with code 3 [exit_code]" in text
    assert "work lost  2.0s" in text
    assert "exited (3)" in text


def test_what_a_failed_job_said_last_is_told_whole() -> None:
    said = "trainer 'yolo' needs ultralytics, which is not installed: " + "pip install " * 20
    tried = {"number": 1, "backend": "local", "outcome": "exited", "exit_code": 2, "message": said + "\n"}
    failure = {"code": "exit_code", "message": "the script exited with code 2", "blame": "user"}
    lines = jobs.describe(job(status="failed", failure=failure, attempts=[tried]), colour=False)
    assert f"last words  {said.strip()}" in lines


def test_last_words_that_are_the_failure_are_told_once() -> None:
    tried = {"number": 1, "backend": "local", "outcome": "lost", "message": "gone: no process is left"}
    failure = {"code": "machine_lost", "message": "gone: no process is left", "blame": "platform"}
    text = "\n".join(jobs.describe(job(status="failed", failure=failure, attempts=[tried]), colour=False))
    assert "last words" not in text


def test_a_better_place_is_named_with_what_it_brings_and_how_to_get_there() -> None:
    place = {"backend": "lambda", "name": "gpu_1x_a10", "region": "", "zone": "", "interruptible": False}
    found = {"place": place, "saves_microusd": 3_100_000, "sooner_s": -1200.0, "by_itself": False}
    told = "would cost $3.10 less and be done 20m00s later on lambda/gpu_1x_a10: "
    assert jobs.better(job(better=found)) == f"{told}anygpu migrate digits --to lambda"
    goes = jobs.better(job(better=found | {"by_itself": True}))
    assert goes == f"{told}it goes there after its next checkpoint"
    assert f"better     {told}anygpu" in "\n".join(jobs.describe(job(better=found), colour=False))
    board = Dashboard(job(better=found), Pulse(), Curves(()), 4)
    assert any(line.startswith("better: would cost $3.10 less") for line in board.lines(200, colour=False))
    assert jobs.better(job()) == ""


def test_a_resumed_attempt_replaces_what_was_lost_in_the_curve() -> None:
    curve = Curve()
    for step in (1, 2, 3, 4, 3, 4, 5):
        curve.add(step, step / 10)
    assert [step for step, _ in curve.points] == [1, 2, 3, 4, 5]


def test_a_long_curve_is_thinned_out_and_keeps_its_ends() -> None:
    curve = Curve()
    for step in range(20_000):
        curve.add(step, 0.0)
    assert len(curve.points) <= 4000
    assert curve.points[0][0] == 0
    assert curve.points[-1][0] > 19_990


def test_losses_and_accuracies_are_charted_first() -> None:
    curves = Curves()
    curves.take([["lr", 1, 0.0, 0.1], ["val/accuracy", 1, 0.0, 0.5], ["train/loss", 1, 0.0, 2.0]])
    assert curves.shown() == ["train/loss", "val/accuracy", "lr"]


def test_a_dashboard_has_title_bar_charts_metrics_and_machine_and_fits() -> None:
    board = Dashboard(
        job(telemetry={"cpu": 0.93, "memory": {"used": 1 << 30, "total": 4 << 30}}),
        Pulse(),
        Curves(),
        height=3,
    )
    board.seed()
    board.take(
        {"kind": "metrics", "attempt": 2, "points": [["loss", step, 0.0, 1 / step] for step in range(1, 9)]}
    )
    lines = board.lines(60, colour=False)
    assert lines[0] == "digits · running · on local · attempt 2"
    assert "43%, epoch 3/7" in lines[1]
    assert lines[3] == "loss  0.125"
    assert lines[-1] == "cpu 93% · memory 1.0 GiB of 4.0 GiB"
    assert max(len(each) for each in lines) <= 60


def test_a_machine_that_says_nothing_takes_no_line() -> None:
    assert machine({}) == []


def test_an_event_is_one_line_without_secrets_of_the_machinery() -> None:
    data = {
        "attempt": 1,
        "name": "anygpu-1",
        "offer": {"backend": "local", "name": "box"},
        "ticket_sha256": "ab",
    }
    event = {
        "position": 7,
        "at": "2030-01-01T12:00:03.123Z",
        "type": "AttemptLaunching",
        "data": data,
        "job_id": "j",
    }
    assert line(event) == "    7  12:00:03.123  AttemptLaunching    attempt=1 name=anygpu-1 offer=box"


def test_a_rewritten_line_shows_what_a_terminal_would() -> None:
    assert last_shown(b"10%\r 20%\r 30%") == " 30%"
    assert last_shown(b"10%\r 20%\r") == " 20%"
    assert last_shown(b"\x1b[31mred") == "[31mred"


def test_the_demos_report_is_content_only_when_everything_happened() -> None:
    good = Report(
        status="completed",
        accuracy=0.98,
        noticed_at_epoch=42,
        resumed_from_epoch=44,
        work_lost_s=0.4,
        recovery_s=2.0,
        points_lost=0,
        model_bytes=10,
        epochs=80,
        ledger_microusd=12_000,
        meter_microusd=12_000,
        machines_left=0,
    )
    good.took_place("anygpu-1-1", {"backend": "aws", "name": "g4dn.xlarge", "interruptible": True})
    good.took_place("anygpu-1-2", {"backend": "lambda", "name": "gpu_1x_a10"})
    assert good.troubles() == []
    assert "98.0 %" in good.text()
    assert "aws g4dn.xlarge spot, then lambda gpu_1x_a10" in good.text()
    assert replace(good, meter_microusd=12_001).troubles() == [
        "the ledger says 12000, the provider's meter 12001 micro-dollars"
    ]
    assert len(Report().troubles()) == 10
