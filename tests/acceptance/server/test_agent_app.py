"""The agent listener: the token of a superseded attempt commits nothing on any route."""

import hashlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server

from anygpu.api.agent import AttemptAssignment
from anygpu.server.agent_app import ROUTES

OPEN = "/agent/v1/claim"
SHA = hashlib.sha256(b"x").hexdigest()
FILE = {"path": "a.pt", "size": 1, "sha256": SHA, "chunks": [{"size": 1, "sha256": SHA}]}
END = {"outcome": "exited", "exit_code": 0, "last_seq": 0, "log_bytes": 0, "metric_points": 0}
BODIES: dict[str, Any] = {
    "/agent/v1/checkpoints": {"step": 9, "at": 1.0, "world_size": 1, "files": [FILE]},
    "/agent/v1/artifacts": {"name": "a.pt", "file": FILE},
    "/agent/v1/end": END,
    "/agent/v1/ready": {"address": "10.0.0.2", "port": 40000},
    "/agent/v1/leave": {"message": "the machine is taken away"},
}
ADDRESSES = [(route.method, route.path) for route in ROUTES]
COMMITS = [path for method, path in ADDRESSES if method == "POST" and path not in (OPEN,)]


def attempt_directory(server: Server, job_id: str, attempt: int) -> Path:
    return server.state / "attempts" / f"anygpu-{job_id.replace('-', '')}-{attempt}"


def work_of(server: Server, job_id: str, attempt: int) -> dict[str, Any]:
    path = attempt_directory(server, job_id, attempt) / "work.json"
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.fixture(scope="module")
def superseded(server: Server) -> Iterator[tuple[str, dict[str, Any]]]:
    """A job whose first attempt was killed and whose second runs; the first one's work order."""
    job_id = server.submit(command=["sleep", "600"], name="fenced")
    server.wait(job_id, lambda job: job["phase"] == "training")
    old = work_of(server, job_id, 1)
    agent = json.loads((attempt_directory(server, job_id, 1) / "agent.json").read_text())
    os.kill(agent["pid"], signal.SIGKILL)
    server.wait(job_id, lambda job: job["attempt"] == 2 and job["phase"] == "training", timeout_s=90)
    yield job_id, old
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    server.wait_ended(job_id)


def events_of(server: Server, job_id: str) -> list[Any]:
    found: list[Any] = server.ask("GET", f"/api/v1/training/{job_id}/events").json["events"]
    return found


def test_the_routes_are_those_of_the_protocol() -> None:
    assert len(ROUTES) == 11
    assert ("POST", "/agent/v1/checkpoints/{id}/commit") in ADDRESSES


def test_every_route_with_a_json_body_declares_its_model() -> None:
    declared = {route.path: route.body for route in ROUTES if route.body is not None and route.path != OPEN}
    assert declared.keys() == BODIES.keys()
    for path, model in declared.items():
        assert model.model_validate(BODIES[path]).model_dump(exclude_unset=True) == BODIES[path]


def test_an_assignment_has_the_declared_shape(superseded: tuple[str, dict[str, Any]]) -> None:
    _, assignment = superseded
    assert {*AttemptAssignment.model_fields} <= assignment.keys()
    AttemptAssignment.model_validate(assignment)


@pytest.mark.parametrize("path", COMMITS)
def test_an_old_token_commits_nothing(
    server: Server, superseded: tuple[str, dict[str, Any]], path: str
) -> None:
    job_id, old = superseded
    before = events_of(server, job_id)
    where = path.replace("{id}", SHA) + ("?first=1&last=1" if path.endswith("reports") else "")
    body = (
        b'{"seq": 1, "kind": "phase", "phase": "training"}\n'
        if path.endswith("reports")
        else BODIES.get(path, {})
    )
    answer = server.ask("POST", where, body, token=old["token"], base=server.agent_url)
    if path.endswith(("reports", "heartbeat")):
        assert answer.status == 200  # evidence is taken however late; the answer says stop
        assert answer.json["orders"] == [{"kind": "cancel", "reason": "ended"}]
    else:
        assert (answer.status, answer.json["code"]) == (409, "superseded")
    assert events_of(server, job_id) == before


def test_an_old_ticket_claims_nothing(server: Server, superseded: tuple[str, dict[str, Any]]) -> None:
    job_id, _ = superseded
    ticket = json.loads((attempt_directory(server, job_id, 1) / "ticket.json").read_text())["ticket"]
    body = {"protocol": 1, "ticket": ticket, "claimant": "abc", "host": {}, "agent_version": "0.1.0"}
    answer = server.ask("POST", OPEN, body, token=None, base=server.agent_url)
    assert answer.status == 409


def test_a_second_claimant_is_refused(server: Server, superseded: tuple[str, dict[str, Any]]) -> None:
    job_id, _ = superseded
    ticket = json.loads((attempt_directory(server, job_id, 2) / "ticket.json").read_text())["ticket"]
    body = {"protocol": 1, "ticket": ticket, "claimant": "abc", "host": {}, "agent_version": "0.1.0"}
    answer = server.ask("POST", OPEN, body, token=None, base=server.agent_url)
    assert (answer.status, answer.json["code"]) == (409, "claimed")


@pytest.mark.parametrize(("method", "path"), [r for r in ADDRESSES if r[1] != OPEN])
def test_agent_routes_accept_only_the_token_of_an_attempt(server: Server, method: str, path: str) -> None:
    where = path.replace("{id}", SHA)
    for token in (None, server.token, "a.1.b.c", "x"):
        assert server.ask(method, where, {}, token=token, base=server.agent_url).status == 401


def test_the_token_of_an_attempt_is_refused_by_the_api(
    server: Server, superseded: tuple[str, dict[str, Any]]
) -> None:
    assert server.ask("GET", "/api/v1/training", token=superseded[1]["token"]).status == 401
    assert server.ask("POST", "/agent/v1/heartbeat", token=superseded[1]["token"]).status == 401
    assert server.ask("POST", "/agent/v1/heartbeat").status == 404


def test_a_signed_url_allows_only_its_own_method_and_key(
    server: Server, superseded: tuple[str, dict[str, Any]]
) -> None:
    job_id, _ = superseded
    live = work_of(server, job_id, 2)
    begun = server.ask(
        "POST",
        "/agent/v1/artifacts",
        BODIES["/agent/v1/artifacts"],
        token=live["token"],
        base=server.agent_url,
    ).json
    (upload,) = begun["uploads"]
    assert upload["url"].startswith("/blobs/"), "the agent knows how it reaches the server"
    where = upload["url"]
    assert server.ask("GET", where, token=None, base=server.agent_url).status == 403
    assert server.ask("PUT", where.replace("/blobs/", "/blobs/x"), b"x", token=None).status == 403
    assert server.ask("PUT", where, b"x" * 5000, token=None).status == 413
    assert server.ask("PUT", where, b"x", token=None, base=server.agent_url).status == 201
    done = server.ask(
        "POST", f"/agent/v1/artifacts/{begun['id']}/commit", {}, token=live["token"], base=server.agent_url
    )
    assert done.json == {"ok": True}
    (made,) = server.ask("GET", f"/api/v1/training/{job_id}/artifacts").json["artifacts"]
    link = made["urls"][0].removeprefix(server.url)
    assert server.ask("GET", link, token=None).data == b"x"
    ranged = server.ask("GET", link, token=None, headers={"Range": "bytes=5-"})
    assert (ranged.status, ranged.headers["content-range"]) == (416, "bytes */1")
    assert server.ask("PUT", link, b"y", token=None).status == 403


def test_an_old_upload_url_cannot_change_a_published_artifact(
    server: Server, superseded: tuple[str, dict[str, Any]]
) -> None:
    job_id, _ = superseded
    token = work_of(server, job_id, 2)["token"]
    content = b"published"
    sha256 = hashlib.sha256(content).hexdigest()
    chunk = {"size": len(content), "sha256": sha256}
    offer = {"name": "model.pt", "file": {"path": "model.pt", **chunk, "chunks": [chunk]}}
    begun = server.ask("POST", "/agent/v1/artifacts", offer, token=token, base=server.agent_url).json
    where = begun["uploads"][0]["url"].removeprefix(server.agent_url)

    def put(body: bytes) -> int:
        return server.ask("PUT", where, body, token=None, base=server.agent_url).status

    def published() -> list[bytes]:
        made = server.ask("GET", f"/api/v1/training/{job_id}/artifacts").json["artifacts"]
        links = [url for each in made if each["name"] == "model.pt" for url in each["urls"]]
        return [server.ask("GET", link.removeprefix(server.url), token=None).data for link in links]

    assert put(b"forgeries") == 400  # same size, other content
    assert put(content) == 201
    assert put(content) == 201
    commit = f"/agent/v1/artifacts/{begun['id']}/commit"
    assert server.ask("POST", commit, {}, token=token, base=server.agent_url).status == 200
    assert put(b"forgeries") == 400
    assert put(content) == 201
    assert published() == [content]
    assert server.ask("POST", commit, {}, token=token, base=server.agent_url).status == 200
    assert published() == [content]


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("", b"", 422),
        ("?first=x&last=1", b"", 422),
        ("?first=1&last=1", b"not a frame", None),
        ("?first=5&last=5", b'{"seq": 5, "kind": "phase", "phase": "training"}\n', 409),
        ("?first=1&last=1", b'{"seq": 1, "kind": "log", "n": 99}\nshort', None),
    ],
)
def test_a_malformed_report_is_refused(
    server: Server, superseded: tuple[str, dict[str, Any]], query: str, body: bytes, status: int | None
) -> None:
    token = _token_of_nobody(superseded)
    answer = server.ask("POST", f"/agent/v1/reports{query}", body, token=token, base=server.agent_url)
    assert answer.status == status if status else 400 <= answer.status < 500
    assert server.ask("GET", "/healthz").status == 200


def _token_of_nobody(superseded: tuple[str, dict[str, Any]]) -> str:
    return str(superseded[1]["token"])
