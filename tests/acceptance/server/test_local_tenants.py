"""The server's own machine runs only jobs of the server's organisation, unless a setting says otherwise."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.acceptance.server.real_server import Answer, Server

TRAINING = "/api/v1/training"


@pytest.fixture(scope="module")
def stranger(server: Server) -> str:
    return server.new_token(organisation="elsewhere", role="member", name="stranger")


def submit(server: Server, token: str, **spec: Any) -> Answer:
    return server.ask(
        "POST", TRAINING, {"command": ["cat", str(server.state / "token")], **spec}, token=token
    )


@pytest.mark.parametrize("placement", [{}, {"allowed": ["local"]}, {"strategy": "cheapest"}])
def test_a_job_of_another_organisation_is_refused(
    server: Server, stranger: str, placement: dict[str, Any]
) -> None:
    refused = submit(server, stranger, placement=placement)
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    assert "'elsewhere' may not run on the server's own machine" in refused.json["detail"]
    assert "local.organisations" in refused.json["hint"]
    assert server.ask("GET", TRAINING, token=stranger).json["jobs"] == []


def test_the_other_routes_that_submit_refuse_it_too(server: Server, stranger: str) -> None:
    params = {"architecture": "tabular"}
    task = {"tenant_id": "elsewhere", "model_params": params, "training_params": {"epochs": 1}}
    assert server.ask("POST", "/orchestrate", task, token=stranger).json["code"] == "forbidden"
    config = {"model_name": "tabular", "config": {"executor": "local"}}
    assert server.ask("POST", TRAINING, config, token=stranger).json["code"] == "forbidden"


def test_the_machine_is_not_visible_to_another_organisation(server: Server, stranger: str) -> None:
    assert server.ask("GET", "/api/v1/backends", token=stranger).json["backends"] == []
    assert server.ask("GET", "/api/v1/queue", token=stranger).json["slots"] == []
    assert server.ask("GET", "/api/v1/monitoring/gpu", token=stranger).json["host"] == {}
    plan = server.ask("POST", "/api/v1/plan", {"command": ["true"]}, token=stranger)
    assert plan.status == 200
    assert "local" not in {each["backend"] for each in plan.json["offers"]}


def test_jobs_of_the_own_organisation_run(server: Server) -> None:
    member = server.new_token(role="member", project="other")
    job_id = server.ask("POST", TRAINING, {"command": ["true"]}, token=member).json["id"]
    path = f"{TRAINING}/{job_id}/stream"
    stream = server.ask("GET", path, token=member)
    assert b'"status": "completed"' in stream.data.splitlines()[-1]


@pytest.mark.parametrize("organisations", ["elsewhere", "*"])
def test_a_setting_opens_the_machine(new_server: Callable[..., Server], organisations: str) -> None:
    server = new_server(ANYGPU_LOCAL__ORGANISATIONS=organisations)
    token = server.new_token(organisation="elsewhere", role="member")
    assert submit(server, token).status == 201
    third = server.new_token(organisation="third", role="member")
    assert submit(server, third).status == (201 if organisations == "*" else 403)


def test_a_job_accepted_earlier_does_not_start_once_the_machine_is_closed(
    new_server: Callable[..., Server],
) -> None:
    server = new_server(ANYGPU_LOCAL__ORGANISATIONS="*")
    token = server.new_token(organisation="elsewhere", role="member")
    done = submit(server, token).json["id"]
    assert b"completed" in server.ask("GET", f"{TRAINING}/{done}/stream", token=token).data.splitlines()[-1]
    server.stop()
    closed = new_server()
    refused = closed.ask("POST", f"{TRAINING}/{done}/resume", token=token)
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
