"""Costs over a real server: sums equal the ledger, by any grouping, as CSV, with running jobs and deleted ones."""

import csv
import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli.rented_backend import install
from tests.acceptance.server.real_server import Answer, Server

COSTS = "/api/v1/costs"
PRICE = 36_000_000_000  # micro-dollars per hour: ten dollars per second
SPOT_PRICE = PRICE // 4
EVIL = '=HYPERLINK("http://example.com")'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("costs")
    packages = install(folder / "packages")
    made = Server(
        folder, PYTHONPATH=os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
    )
    options = {"record": str(folder / "rented"), "price": PRICE, "spot_price": SPOT_PRICE}
    answer = made.ask("POST", "/api/v1/backends", {"name": "cloud", "kind": "rented", "options": options})
    assert answer.status in (200, 201), answer.data
    yield made
    made.cancel_everything()
    made.stop()


def get(server: Server, query: str = "", **headers: str) -> Answer:
    answer = server.ask("GET", f"{COSTS}{query}", headers=headers)
    assert answer.status == 200, answer.data
    return answer


def table(server: Server, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = get(server, f"?{query}").json
    return found


def run(server: Server, **spec: Any) -> dict[str, Any]:
    return server.wait_ended(server.submit(command="sleep 1.1", **spec))


def ledger(server: Server) -> int:
    jobs = server.ask("GET", "/api/v1/training?limit=1000").json["jobs"]
    return sum(int(job["cost_microusd"]) for job in jobs)


PAID = {"allowed": ["cloud"]}


def test_the_sums_of_every_grouping_are_the_ledger(server: Server) -> None:
    jobs = table(server)["total"]["jobs"]
    rented = run(server, placement={**PAID, "interruptible": "no"}, tags=["dusk", EVIL])
    assert rented["cost_microusd"] >= PRICE // 3600
    spot = run(server, placement={**PAID, "interruptible": "yes"}, tags=["dusk"])
    assert spot["place"]["interruptible"]
    free = run(server)
    assert free["cost_microusd"] == 0
    gone = run(server, placement=PAID)
    assert server.ask("DELETE", f"/api/v1/training/{gone['id']}").status == 204
    whole = ledger(server) + gone["cost_microusd"]
    for by in ("day", "person", "backend", "gpu"):
        found = table(server, f"by={by}")
        assert sum(group["microusd"] for group in found["groups"]) == found["total"]["microusd"] == whole
        assert found["total"]["jobs"] == jobs + 4
        assert found["overlap_microusd"] == 0
    by_backend = {group["key"]: group for group in table(server, "by=backend&daily=true")["groups"]}
    assert set(by_backend) == {"cloud", "local"}
    assert sum(by_backend["cloud"]["daily_microusd"]) == whole
    assert by_backend["local"]["machine_s"] > 0
    tags = table(server, "by=tag&daily=true")
    assert sum(tags["daily_microusd"]) == whole
    assert {group["key"]: group["jobs"] for group in tags["groups"]} == {"dusk": 2, EVIL: 1, "": jobs + 2}
    assert sum(group["microusd"] for group in tags["groups"]) - tags["overlap_microusd"] == whole
    limited = table(server, "by=tag&limit=1")
    assert (len(limited["groups"]), limited["rest"]["groups"]) == (1, 2)


def test_spot_machines_save_the_difference_to_their_on_demand_price(server: Server) -> None:
    before = table(server)["total"]["saved_microusd"]
    spot = run(server, placement={**PAID, "interruptible": "yes"})
    summary = get(server, "/summary").json
    saved = summary["total"]["saved_microusd"] - before
    assert saved == 3 * spot["cost_microusd"]
    assert summary["on_demand_microusd"] == summary["total"]["microusd"] + summary["total"]["saved_microusd"]


def test_a_running_job_counts_until_now_and_the_sidebar_has_the_same_sums(
    server: Server, tmp_path: Path
) -> None:
    before = table(server)["total"]["microusd"]
    gate = tmp_path / "gate"
    job = server.submit(command=f"while [ ! -e {gate} ]; do sleep 0.05; done", placement=PAID)
    server.wait(
        job, lambda found: found["phase"] == "training" and found["cost_microusd"] > 2 * PRICE // 3600
    )
    running = table(server)["total"]["microusd"]
    assert running > before + PRICE // 3600
    summary = server.ask("GET", "/api/v1/summary").json
    assert summary["month_microusd"] >= summary["today_microusd"] >= running
    projection = get(server, "/summary").json["projection"]
    assert projection["low_microusd"] <= projection["microusd"] <= projection["high_microusd"]
    assert projection["microusd"] >= running
    gate.touch()
    ended = server.wait_ended(job)
    assert table(server)["total"]["microusd"] == before + ended["cost_microusd"]


def test_the_csv_has_the_same_numbers_and_runs_no_formula(server: Server) -> None:
    run(server, placement=PAID, tags=["week", EVIL])
    json_table = table(server, "by=tag")
    answer = get(server, "?by=tag&format=csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    heading, *rows = csv.reader(io.StringIO(answer.data.decode()))
    assert heading[:3] == ["tag", "cost_usd", "machine_hours"]
    costs = {row[0]: round(float(row[1]) * 1_000_000) for row in rows}
    expected = {group["key"]: group["microusd"] for group in json_table["groups"]}
    assert costs.pop("total") == json_table["total"]["microusd"]
    assert costs == {f"'{key}" if key == EVIL else key: value for key, value in expected.items()}
    assert get(server, "?by=day", Accept="text/csv").headers["content-type"].startswith("text/csv")
    daily = list(csv.reader(io.StringIO(get(server, "?by=backend&daily=true&format=csv").data.decode())))
    assert daily[0] == ["day", "backend", "cost_usd"]


def test_days_are_those_of_the_time_zone(server: Server) -> None:
    now = datetime.now(UTC)
    for zone, offset in (("+14:00", 14), ("-12:00", -12), ("Etc/GMT-14", 14)):
        today = (now + timedelta(hours=offset)).date()
        days = {today.isoformat(), (today - timedelta(days=1)).isoformat()}
        first = (today - timedelta(days=40)).isoformat()
        found = table(server, f"by=day&from={first}&timezone={zone.replace('+', '%2B')}")
        assert {group["key"] for group in found["groups"]} <= days
        assert found["timezone"] == zone


@pytest.mark.parametrize(
    "query",
    [
        "by=colour",
        "from=yesterday",
        "from=2026-13-01",
        "from=2026-02-01&to=2026-01-01",
        "from=1900-01-01",
        "to=9999-12-31",
        "from=2000-01-01&to=2020-01-01",
        "from=2020-01-01&to=2024-01-01&daily=true",
        "timezone=Nowhere/City",
        "timezone=../../etc/passwd",
        "timezone=Europe",
        "timezone=%2B25:00",
        "limit=0",
        "format=xml",
    ],
)
def test_a_wrong_query_says_what_to_do(server: Server, query: str) -> None:
    answer = server.ask("GET", f"{COSTS}?{query}")
    assert answer.status == 422, answer.data
    assert answer.json["problems"]


@pytest.mark.parametrize("month", ["2026-13", "0001-01", "2026", "9999-12"])
def test_a_wrong_month_says_what_to_do(server: Server, month: str) -> None:
    assert server.ask("GET", f"{COSTS}/summary?month={month}").status == 422


def test_a_month_that_is_over_has_no_projection(server: Server) -> None:
    run(server)
    summary = get(server, "/summary?month=2020-02").json
    assert summary["projection"] is None
    assert (summary["days_so_far"], summary["total"]["microusd"]) == (29, 0)
    assert summary["first_month"] == datetime.now(UTC).strftime("%Y-%m")


def test_other_projects_see_nothing_and_viewers_may_read(server: Server) -> None:
    run(server, placement=PAID)
    viewer = server.new_token(role="viewer")
    assert server.ask("GET", COSTS, token=viewer).json["total"]["microusd"] > 0
    stranger = server.new_token(role="viewer", project="another")
    assert server.ask("GET", COSTS, token=stranger).json["groups"] == []
    assert server.ask("GET", f"{COSTS}/summary", token=stranger).json["first_month"] is None


SCRIPT = """
import torch
for epoch in range(30):
    print(f"Epoch {epoch + 1}/30")
"""


def test_a_workload_is_compared_at_all_providers(server: Server) -> None:
    spec = {
        "script": "train.py",
        "resources": {"gpu": 1},
        "placement": {"allowed": ["local"], "expected_duration": "2h"},
        "limits": {"max_cost": 0.01},
    }
    answer = server.ask("POST", f"{COSTS}/compare", {"spec": spec, "files": {"train.py": SCRIPT}})
    assert answer.status == 200, answer.data
    providers = answer.json["providers"]
    assert len({each["provider"] for each in providers}) > 3
    totals = [each["total_microusd"]["expected"] for each in providers]
    assert totals == sorted(totals)
    cloud = next(each for each in providers if each["provider"] == "cloud")
    assert cloud["availability"] in ("free", "unknown")
    assert {each["availability"] for each in providers} >= {"no_account"}
    verdicts = [each["verdict"] for each in providers]
    assert verdicts.count("cheapest") == 1
    assert sum(each["recommended"] for each in providers) == 1
    assert answer.json["recommendation"]


def test_a_job_of_the_project_is_compared(server: Server) -> None:
    job = run(server, name="compared", placement={**PAID, "expected_duration": "1h"})
    answer = server.ask("POST", f"{COSTS}/compare", {"job": job["id"]})
    assert answer.status == 200, answer.data
    assert answer.json["name"] == "compared"
    assert "local" in {each["provider"] for each in answer.json["providers"]}
    assert server.ask("POST", f"{COSTS}/compare", {}).status == 422
    assert server.ask("POST", f"{COSTS}/compare", {"job": "nobody"}).status == 404
    both = {"job": job["id"], "spec": {"script": "a.py"}}
    assert server.ask("POST", f"{COSTS}/compare", both).status == 422
