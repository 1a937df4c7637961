"""Metrics of all attempts and telemetry, for charts."""

import time
from collections.abc import Callable

from tests.acceptance.server.real_server import Server

SAMPLE_LIMIT_S = 90.0

NUMBERS = """
import anygpu
for step in range(20_000):
    anygpu.log({"train/loss": 99.5 if step == 7777 else 5.25, "odd": float("nan")}, step=step)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SAMPLE_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def path(job_id: str, rest: str) -> str:
    return f"/api/v1/training/{job_id}/{rest}"


def test_a_summary_has_every_metric_without_points(server: Server) -> None:
    job_id = server.submit(code=NUMBERS)
    server.wait_ended(job_id)
    overview = server.ask("GET", path(job_id, "metrics/summary")).json
    assert (overview["attempt"], overview["cursor"]) == (1, 40_000)
    odd, loss = overview["metrics"]
    assert odd == {**odd, "name": "odd", "min": "NaN", "last": "NaN", "attempts": [1]}
    assert loss == {
        "name": "train/loss",
        "count": 20_000,
        "min": 5.25,
        "max": 99.5,
        "last": 5.25,
        "last_step": 19_999,
        "attempts": [1],
    }


def test_history_keeps_extremes_and_a_range_has_every_point(server: Server) -> None:
    job_id = server.submit(code=NUMBERS)
    server.wait_ended(job_id)
    answer = server.ask("GET", path(job_id, "metrics/history?name=train/loss&name=no&points=60")).json
    ((attempt,), (series,)) = answer["attempts"], answer["attempts"][0]["series"]
    assert (attempt["attempt"], attempt["cursor"], series["count"]) == (1, 40_000, 20_000)
    assert len(series["steps"]) == len(series["times"]) == len(series["values"]) <= 60
    assert series["values"][series["steps"].index(7777)] == 99.5
    zoomed = server.ask(
        "GET", path(job_id, "metrics/history?name=train/loss&points=60&from_step=7750&to_step=7800")
    ).json
    assert zoomed["attempts"][0]["series"][0]["steps"] == [*range(7750, 7801)]
    assert server.ask("GET", path(job_id, "metrics/history?name=other")).json == {"attempts": []}


def test_history_needs_a_name_and_an_existing_attempt(server: Server) -> None:
    job_id = server.submit(code="print('loss=1')")
    server.wait_ended(job_id)
    assert server.ask("GET", path(job_id, "metrics/history")).status == 422
    assert server.ask("GET", path(job_id, "metrics/history?name=loss&attempt=7")).status == 404
    assert server.ask("GET", path(job_id, "telemetry?attempt=7")).status == 404


def test_telemetry_of_a_running_job_is_served(server: Server) -> None:
    job_id = server.submit(code="import time; time.sleep(600)", name="watched")

    def names() -> set[str]:
        attempts = server.ask("GET", path(job_id, "telemetry")).json["attempts"]
        return {series["name"] for attempt in attempts for series in attempt["series"]}

    wait_until(lambda: {"cpu.utilisation", "memory.used", "disk.used"} <= names())
    answer = server.ask("GET", path(job_id, "telemetry?points=10&attempt=1")).json
    memory = next(s for s in answer["attempts"][0]["series"] if s["name"] == "memory.used")
    assert memory["unit"] == "bytes"
    assert 0 < memory["points"][0][1] <= memory["limit"]
    assert server.ask("GET", path(job_id, "telemetry?to_ms=1000")).json == {"attempts": []}
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
