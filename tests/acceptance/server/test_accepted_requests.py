"""What the server accepts, it trains: every example of the API and every request shape, until its model exists."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

HOUSES = "/data/houses.csv"  # the path in the examples of the OpenAPI document
SUBMIT_PATHS = ("/api/v1/training", "/api/v1/training/create", "/orchestrate")


@pytest.fixture
def houses(tmp_path: Path) -> str:
    rows = [f"{size},{size % 5},{size * 3 + size % 5}" for size in range(40, 140)]
    path = tmp_path / "houses.csv"
    path.write_text("size,rooms,price\n" + "\n".join(rows) + "\n")
    return str(path)


def trained(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The job of an accepted request, which ends with a model to download."""
    answer = server.ask("POST", path, body)
    assert answer.status == 201, answer.data
    job_id = answer.json.get("task_id") or answer.json["id"]
    job = server.wait_ended(job_id, timeout_s=120)
    assert job["status"] == "completed", (job["failure"], job["recent_logs"])
    files = server.ask("GET", f"/api/v1/training/{job_id}/artifacts").json["artifacts"]
    assert [file for file in files if file["name"].startswith("best/")], files
    return job


def request_examples(server: Server) -> Iterator[tuple[str, dict[str, Any]]]:
    document = server.ask("GET", "/api/v1/openapi.json").json
    for path in SUBMIT_PATHS:
        content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        yield path, content["example"]
    content = document["paths"]["/models/{model}/train"]["post"]["requestBody"]["content"]["application/json"]
    yield "/models/ridge/train", content["example"]
    yield SUBMIT_PATHS[0], document["components"]["schemas"]["ModelAndConfig"]["example"]


def with_data(body: dict[str, Any], houses: str) -> dict[str, Any]:
    replaced: dict[str, Any] = json.loads(json.dumps(body).replace(HOUSES, houses))
    return replaced


@pytest.mark.extended
def test_every_request_example_of_the_document_trains_a_model(server: Server, houses: str) -> None:
    for path, example in request_examples(server):
        trained(server, path, with_data(example, houses))


def test_a_model_name_and_a_config_train_a_model(server: Server, houses: str) -> None:
    config = {"target": "price", "epochs": 2, "max_retries": 0, "allow_spot_instances": True}
    body = {"model_name": "ridge", "config": {**config, "dataset_path": houses}}
    job = trained(server, "/api/v1/training", body)
    assert (job["backend"], job["spec"]["dataset"]) == ("local", {"path": houses})


@pytest.mark.parametrize("place", ["dataset", "dataset_path", "training_params"])
def test_a_task_takes_its_dataset_under_each_name(server: Server, houses: str, place: str) -> None:
    body: dict[str, Any] = {
        "training_params": {"epochs": 2, "target": "price"},
        "model_params": {"architecture": "ridge"},
        "wandb_tags": ["tag1"],
    }
    if place == "training_params":
        body["training_params"]["dataset_path"] = houses
    else:
        body[place] = houses
    job = trained(server, "/orchestrate", body)
    assert job["tags"] == ["tag1"]
    status = server.ask("GET", f"/status?task_id={job['id']}").json
    assert status["progress"]["progress_percent"] == 100
    assert status["progress"]["progress"] == 1.0
    assert status["progress"]["status"] == "completed"
    assert "r2" in status["progress"]["metrics"]


def problem(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = server.ask("POST", path, body)
    assert answer.status == 422, answer.data
    [found] = answer.json["problems"]
    return dict(found)


def test_a_trainer_whose_framework_is_missing_is_refused_with_the_command_that_installs_it(
    server: Server, houses: str
) -> None:
    params = {"epochs": 10, "batch_size": 16, "learning_rate": 0.001, "model_type": "detection"}
    body = {
        "tenant_id": "local",
        "training_params": params,
        "model_params": {"architecture": "yolo", "input_size": 640},
        "dataset": houses,
    }
    found = problem(server, "/orchestrate", body)
    assert "pip install 'anygpu[yolo]'" in found["message"]
    assert "ultralytics" in found["message"]
    assert "requirements" in found["suggestion"]
    found = problem(
        server, "/api/v1/training", {"trainer": "xgboost", "dataset": houses, "config": {"target": "price"}}
    )
    assert "pip install 'anygpu[boosting]'" in found["message"]


def test_missing_data_is_refused_at_submission(server: Server) -> None:
    ridge = {"trainer": "ridge", "config": {"target": "price"}}
    assert (
        problem(server, "/api/v1/training", ridge)["message"]
        == "is missing: the trainer 'ridge' needs a dataset"
    )
    absent = problem(server, "/api/v1/training", {**ridge, "dataset": "/no/such/houses.csv"})
    assert absent["message"] == "there is no such file or directory on the server"
    relative = problem(server, "/api/v1/training", {**ridge, "dataset": "houses.csv"})
    assert "relative path" in relative["message"]
    parts = {"path": "/no/such/houses.csv", "parts": ["0" * 64]}
    assert (
        problem(server, "/api/v1/training", {**ridge, "dataset": parts})["message"]
        == "the file with this SHA-256 was not uploaded to the server"
    )


def test_a_script_without_its_directory_is_refused_at_submission(server: Server) -> None:
    found = problem(server, "/api/v1/training", {"script": "train.py"})
    assert found["place"] == "script"
    assert "PUT /api/v1/uploads/{sha256}" in found["suggestion"]


def test_a_profile_is_the_backend_the_job_runs_on(server: Server) -> None:
    there = server.wait_ended(server.submit(command=["true"], placement={"profile": "local"}))
    assert (there["status"], there["backend"]) == ("completed", "local")
    found = problem(server, "/api/v1/training", {"command": ["true"], "placement": {"profile": "locl"}})
    assert found["message"] == "there is no backend 'locl'"
    assert "did you mean 'local'" in found["suggestion"]


def test_the_status_of_a_failed_task_carries_the_cause_and_the_last_lines(
    server: Server, houses: str
) -> None:
    Path(houses).write_text("size,price\n1,2\n3\n")
    body = {
        "training_params": {"target": "price"},
        "model_params": {"architecture": "ridge"},
        "dataset": houses,
    }
    task = server.ask("POST", "/orchestrate", body).json
    server.wait_ended(task["task_id"], timeout_s=60)
    status = server.ask("GET", f"/status?task_id={task['task_id']}").json
    assert status["status"] == "failed"
    assert status["error"].startswith("the script exited with code 2\n")
    assert f"{houses}:3:" in status["error"]
    assert status["logs"]


def test_the_job_shows_its_last_lines_and_what_is_left(server: Server) -> None:
    code = "import sys\nprint('half\\rwhole')\nprint('one')\nsys.exit(3)"
    job = server.wait_ended(server.submit(code=code))
    assert job["recent_logs"] == ["whole", "one"]
    assert job["estimated_remaining"] is None
    assert job["work_lost_microusd"] == 0


def test_a_job_begins_at_a_checkpoint_of_another_job(server: Server) -> None:
    save = """
import anygpu
for step in (1, 2):
    with open("state.txt", "w") as file:
        file.write(str(step))
    anygpu.checkpoint("state.txt", step=step, wait=True)
"""
    first = server.wait_ended(server.submit(code=save))
    assert first["checkpoint"]["step"] == 2
    show = "import anygpu, pathlib\nprint('from', pathlib.Path(anygpu.resume_path()).read_text())"
    second = server.wait_ended(server.submit(code=show, resume_from=f"{first['id']}@1"))
    assert second["recent_logs"][-1] == "from 1", second
    assert second["resumed_from"] == first["id"]


def test_a_model_is_trained_on_a_compute_profile_and_its_session_has_the_files(
    server: Server, houses: str
) -> None:
    body = {"dataset": houses, "compute_profile_id": "local", "config": {"epochs": 2, "target": "price"}}
    job = trained(server, "/models/ridge/train", body)
    session = server.ask("GET", f"/training-sessions/{job['id']}").json
    assert (session["status"], session["model"], session["compute_profile_id"]) == (
        "completed",
        "ridge",
        "local",
    )
    assert session["progress"]["progress_percent"] == 100
    [url] = next(file["urls"] for file in session["artifacts"] if file["name"].startswith("best/"))
    assert server.ask("GET", url.removeprefix(server.url), token=None).status == 200
    assert (
        problem(server, "/models/ridge/train", {**body, "dataset_version_id": "v1"})["place"]
        == "dataset_version_id"
    )
    assert problem(server, "/models/ridge/train", {**body, "compute_profile_id": "aws-profile"})["suggestion"]


def test_training_settings_of_a_cloud_client_train_a_model(server: Server, houses: str) -> None:
    settings = {
        "framework": "tabular",
        "modelVariant": "mlp",
        "epochs": 2,
        "batchSize": 16,
        "target": "price",
    }
    body = {"datasetPath": houses, "trainingSettings": settings}
    job = trained(server, "/api/v1/training", body)
    assert job["spec"]["config"] == {"model": "mlp", "epochs": 2, "batch_size": 16, "target": "price"}
    found = problem(server, "/api/v1/training", {**body, "password": "secure-password"})
    assert (found["place"], found["value"]) == ("password", None)


def test_a_dataset_in_two_places_is_refused(server: Server, houses: str) -> None:
    config = {"target": "price", "dataset_path": houses}
    found = problem(server, "/api/v1/training", {"model_name": "ridge", "dataset": houses, "config": config})
    assert (found["place"], found["message"]) == (
        "config.dataset_path",
        "is given twice; leave out 'dataset'",
    )
