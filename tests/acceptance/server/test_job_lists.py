"""Lists of jobs: counts, edited names and tags, the main metric, and the summary of the project."""

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

from anygpu.sdk.platform import Platform

TRAINING = "/api/v1/training"
SCRIPT = """
import anygpu
for step in range(50):
    anygpu.log(loss=1 / (step + 1), lr=0.1, step=step)
anygpu.log({"val/accuracy": 0.75}, step=50)
"""


def counts(server: Server, query: str = "") -> dict[str, Any]:
    answer = server.ask("GET", f"{TRAINING}/counts{query}")
    assert answer.status == 200, answer.data
    found: dict[str, Any] = answer.json
    return found


def edit(server: Server, job_id: str, **changes: Any) -> dict[str, Any]:
    answer = server.ask("PATCH", f"{TRAINING}/{job_id}", changes)
    assert answer.status == 200, answer.data
    found: dict[str, Any] = answer.json
    return found


def ids(server: Server, query: str) -> list[str]:
    return [job["id"] for job in server.ask("GET", f"{TRAINING}?{query}").json["jobs"]]


def test_counts_and_the_active_filter_follow_a_job(server: Server, tmp_path: Path) -> None:
    before = counts(server)
    gate = tmp_path / "gate"
    job_id = server.submit(command=f"while [ ! -e {gate} ]; do sleep 0.05; done", tags=["counted"])
    server.wait(job_id, lambda job: job["phase"] == "training")
    now = counts(server)
    assert (now["all"], now["active"]) == (before["all"] + 1, before["active"] + 1)
    assert counts(server, "?tag=counted") == {
        "all": 1,
        "active": 1,
        "queued": 0,
        "running": 1,
        "completed": 0,
        "failed": 0,
        "cancelled": 0,
        "exact": True,
    }
    assert ids(server, "status=active&tag=counted") == [job_id]
    gate.touch()
    server.wait_ended(job_id)
    assert counts(server)["completed"] == before["completed"] + 1
    assert ids(server, "status=active&tag=counted") == []
    assert counts(server, "?tag=none")["all"] == 0


def test_a_job_is_edited_while_it_runs_and_after_its_end(server: Server) -> None:
    job_id = server.submit(command=["true"], name="draft", tags=["day"])
    server.wait_ended(job_id)
    edited = edit(server, job_id, name="final", add_tags=["best", "day"], notes="Kept this one.")
    assert (edited["name"], edited["tags"], edited["notes"]) == ("final", ["day", "best"], "Kept this one.")
    assert edited["spec"]["name"] == "draft"
    assert ids(server, "name=final") == ids(server, "tag=best") == ids(server, "q=kept") == [job_id]
    assert ids(server, "name=draft") == []
    edited = edit(server, job_id, remove_tags=["day"])
    assert edited["tags"] == ["best"]
    edit(server, job_id, tags=["best"], name="final")
    events = server.ask("GET", f"{TRAINING}/{job_id}/events").json["events"]
    data = [event["data"] for event in events if event["type"] == "JobEdited"]
    assert [sorted(each) for each in data] == [["name", "notes", "person", "tags"], ["person", "tags"]]
    assert edit(server, job_id, name="", notes="")["name"] == ""


def test_the_sdk_edits_a_job_and_a_resumed_job_keeps_the_changes(server: Server) -> None:
    job_id = server.submit(command=["false"], name="draft")
    server.wait_ended(job_id)
    platform = Platform(server.url, server.token)
    platform.job(job_id).edit(name="renamed", tags=["kept"], notes="Once more.")
    described = platform.job(job_id).describe()
    assert (described["name"], described["tags"], described["notes"]) == ("renamed", ["kept"], "Once more.")
    resumed = server.ask("POST", f"{TRAINING}/{job_id}/resume").json["id"]
    assert (server.job(resumed)["name"], server.job(resumed)["tags"]) == ("renamed", ["kept"])


WRONG = [
    ({"name": "last"}, "name"),
    ({"name": "no spaces"}, "name"),
    ({"name": 7}, "name"),
    ({"tags": ["", "x"]}, "tags"),
    ({"tags": [f"t{n}" for n in range(60)]}, "tags"),
    ({"notes": "x" * 10_001}, "notes"),
    ({"status": "completed"}, "status"),
]


@pytest.mark.parametrize(("changes", "place"), WRONG)
def test_values_that_a_spec_would_refuse_are_refused(
    server: Server, changes: dict[str, Any], place: str
) -> None:
    job_id = server.submit(command=["true"])
    answer = server.ask("PATCH", f"{TRAINING}/{job_id}", changes)
    assert answer.status == 422, answer.data
    assert answer.json["problems"][0]["place"].startswith(place)


def test_a_viewer_edits_nothing(server: Server) -> None:
    job_id = server.submit(command=["true"])
    token = server.new_token(role="viewer")
    assert server.ask("PATCH", f"{TRAINING}/{job_id}", {"notes": "x"}, token=token).status == 403
    assert server.ask("GET", f"{TRAINING}/counts", token=token).status == 200
    summary = server.ask("GET", "/api/v1/summary", token=token).json
    assert summary["machines_without_job"] is None


def test_a_list_has_the_main_metric_and_its_curve(server: Server) -> None:
    job_id = server.submit(code=SCRIPT, limits={"max_cost": 2.5, "deadline": "2h"})
    server.wait_ended(job_id)
    (job,) = (each for each in server.ask("GET", TRAINING).json["jobs"] if each["id"] == job_id)
    assert job["main_metric"] == {"name": "val/accuracy", "value": 0.75, "step": 50, "spark": [0.75]}
    assert job["max_cost_microusd"] == 2_500_000
    assert job["deadline_at"] > job["submitted_at"]
    assert (job["remaining"], job["attempt_marks"], job["interruptions"]) == (None, [], 0)


def test_the_summary_counts_the_active_jobs(server: Server) -> None:
    job_id = server.submit(command=["sleep", "600"])
    server.wait(job_id, lambda job: job["phase"] == "training")
    summary = server.ask("GET", "/api/v1/summary").json
    assert summary["active"] == counts(server)["active"]
    assert (summary["hourly_microusd"], summary["machines"]) == (0, 0)
    server.ask("POST", f"{TRAINING}/{job_id}/cancel")
