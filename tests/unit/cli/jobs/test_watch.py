from tests.unit.cli.builders import job

from anygpu.cli.jobs.watch import Dashboard, machine_lines
from anygpu.cli.terminal.chart import Curves
from anygpu.cli.terminal.progress_bar import StreamStatus


def test_a_dashboard_has_title_bar_charts_metrics_and_machine_and_fits() -> None:
    board = Dashboard(
        job(telemetry={"cpu": 0.93, "memory": {"used": 1 << 30, "total": 4 << 30}}),
        StreamStatus(),
        Curves(),
        height=3,
    )
    board.seed()
    board.update(
        {"kind": "metrics", "attempt": 2, "points": [["loss", step, 0.0, 1 / step] for step in range(1, 9)]}
    )
    lines = board.lines(60, colour=False)
    assert lines[0] == "digits · running · on local · attempt 2"
    assert "43%, epoch 3/7" in lines[1]
    assert lines[3] == "loss  0.125"
    assert lines[-1] == "cpu 93% · memory 1.0 GiB of 4.0 GiB"
    assert max(len(each) for each in lines) <= 60


def test_a_dashboard_names_place_price_and_cost_so_far() -> None:
    place = {
        "backend": "lambda",
        "name": "gpu_1x_a10",
        "region": "us-east-1",
        "zone": "",
        "interruptible": True,
    }
    priced = {**place, "price_microusd_per_hour": 750_000}
    board = Dashboard(job(place=priced, cost_microusd=123_456, ended_at=None), StreamStatus(), Curves())
    expected = "place: lambda gpu_1x_a10 in us-east-1 (spot), $0.7500 per hour; $0.1235 so far"
    assert expected in board.lines(120, colour=False)
    free = {**place, "interruptible": False, "price_microusd_per_hour": 0}
    board = Dashboard(job(place=free, cost_microusd=0), StreamStatus(), Curves())
    assert "place: lambda gpu_1x_a10 in us-east-1, free" in board.lines(120, colour=False)


def test_a_machine_without_telemetry_has_no_lines() -> None:
    assert machine_lines({}) == []
