from tests.unit.cli.builders import job

from anygpu.cli.jobs.watch import Dashboard
from anygpu.cli.terminal import job_lines
from anygpu.cli.terminal.chart import Curves
from anygpu.cli.terminal.progress_bar import StreamStatus


def test_the_phase_is_shown_where_it_adds_information() -> None:
    assert job_lines.status_text(job()) == "running"
    assert job_lines.status_text(job(phase="recovering")) == "running (recovering)"
    assert job_lines.status_text(job(status="failed", phase="ended")) == "failed"


def test_the_table_has_a_row_for_each_job() -> None:
    heading, row = job_lines.job_table([job()], colour=False, columns=200)
    assert heading.split() == [
        "ID",
        "NAME",
        "STATUS",
        "PROGRESS",
        "DURATION",
        "SUBMITTED",
        "BACKEND",
        "METRICS",
    ]
    assert row.startswith("00000001  digits  running  43%       1m30s")
    assert row.endswith("local    loss=0.1235")


PAID = {
    "backend": "lambda",
    "name": "gpu_1x_a10",
    "region": "us-east-1",
    "zone": "",
    "interruptible": False,
    "price_microusd_per_hour": 750_000,
}


def test_the_table_has_price_and_cost_if_a_job_uses_a_paid_machine() -> None:
    paid, free = job(place=PAID, cost_microusd=20_000), job(place={**PAID, "price_microusd_per_hour": 0})
    heading, first, second = job_lines.job_table([paid, free], colour=False, columns=200)
    assert heading.split()[-3:] == ["PRICE", "COST", "METRICS"]
    assert "$0.7500 per hour  $0.0200" in first
    assert "free              free" in second


def test_details_name_place_price_and_cost_so_far() -> None:
    text = "\n".join(
        job_lines.job_details(job(place=PAID, cost_microusd=20_000, ended_at=None), colour=False)
    )
    assert "lambda gpu_1x_a10 in us-east-1, $0.7500 per hour" in text
    assert "$0.0200 so far" in text
    free = {**PAID, "price_microusd_per_hour": 0}
    text = "\n".join(job_lines.job_details(job(place=free, cost_microusd=0), colour=False))
    assert "lambda gpu_1x_a10 in us-east-1, free" in text


def test_a_waiting_job_shows_its_position_and_when_it_is_predicted_to_start() -> None:
    waiting = job(status="queued", phase="waiting", queue_position=2)
    assert "position 2" in "\n".join(job_lines.job_details(waiting, colour=False))
    text = "\n".join(job_lines.job_details({**waiting, "queue_wait_s": 200.0}, colour=False))
    assert "position 2, starts in about 3m20s" in text


def test_a_failed_job_shows_reason_lost_work_and_attempts() -> None:
    tried = {"number": 1, "backend": "local", "outcome": "exited", "exit_code": 3, "launching_at": None}
    failure = {"code": "exit_code", "message": "the script exited with code 3", "blame": "user"}
    text = "\n".join(
        job_lines.job_details(
            job(status="failed", failure=failure, work_lost_s=2.0, attempts=[tried]), colour=False
        )
    )
    assert "the script exited with code 3 [exit_code]" in text
    assert "work lost  2.0s" in text
    assert "exited (3)" in text


def test_the_last_output_of_a_failed_job_is_not_cut() -> None:
    said = "trainer 'yolo' needs ultralytics, which is not installed: " + "pip install " * 20
    tried = {"number": 1, "backend": "local", "outcome": "exited", "exit_code": 2, "message": said + "\n"}
    failure = {"code": "exit_code", "message": "the script exited with code 2", "blame": "user"}
    lines = job_lines.job_details(job(status="failed", failure=failure, attempts=[tried]), colour=False)
    assert f"last output  {said.strip()}" in lines


def test_the_last_output_is_not_repeated() -> None:
    tried = {"number": 1, "backend": "local", "outcome": "lost", "message": "gone: no process is left"}
    failure = {"code": "machine_lost", "message": "gone: no process is left", "blame": "platform"}
    text = "\n".join(
        job_lines.job_details(job(status="failed", failure=failure, attempts=[tried]), colour=False)
    )
    assert "last output" not in text


def test_a_better_offer_shows_savings_and_the_command() -> None:
    place = {"backend": "lambda", "name": "gpu_1x_a10", "region": "", "zone": "", "interruptible": False}
    found = {"place": place, "saves_microusd": 3_100_000, "sooner_s": -1200.0, "by_itself": False}
    told = "would cost $3.10 less and finish 20m00s later on lambda/gpu_1x_a10: "
    assert job_lines.better_offer_text(job(better=found)) == f"{told}anygpu migrate digits --to lambda"
    goes = job_lines.better_offer_text(job(better=found | {"by_itself": True}))
    assert goes == f"{told}it moves there after its next checkpoint"
    assert f"better     {told}anygpu" in "\n".join(job_lines.job_details(job(better=found), colour=False))
    board = Dashboard(job(better=found), StreamStatus(), Curves(()), 4)
    assert any(line.startswith("better: would cost $3.10 less") for line in board.lines(200, colour=False))
    assert job_lines.better_offer_text(job()) == ""
