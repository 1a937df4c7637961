"""The token of another organisation finds nothing, on every route of a job."""

import http.client
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from tests.acceptance.server.real_server import Server

from anygpu.server.app import describe_api

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def routes_of_a_job() -> Iterator[tuple[str, str]]:
    for route in describe_api("0").routes:
        if isinstance(route, APIWebSocketRoute) and "{ref}" in route.path:
            yield "WS", route.path
        elif isinstance(route, APIRoute) and "{ref}" in route.path:
            yield from ((method, route.path) for method in sorted(route.methods or ()))


NEEDS_QUERY = {
    "/api/v1/training/{ref}/logs/search": "?q=x",
    "/api/v1/training/{ref}/metrics/history": "?name=loss",
}
ROUTES = [
    *((method, path + NEEDS_QUERY.get(path, "")) for method, path in routes_of_a_job()),
    ("GET", "/status?task_id={ref}"),
]


@pytest.fixture(scope="module")
def server(shared_server: Server) -> Server:
    return shared_server


@pytest.fixture(scope="module")
def job_id(server: Server) -> str:
    job_id = server.submit(command=["python", "-c", "print('mine')"], name="mine")
    server.wait_ended(job_id)
    return job_id


@pytest.fixture(scope="module")
def stranger(server: Server) -> str:
    return server.new_token(organisation="elsewhere", role="admin", name="stranger")


def status_of(server: Server, method: str, path: str, token: str) -> int:
    if method != "WS":
        body: dict[str, object] | None = {} if method in ("POST", "PUT") else None
        return server.ask(method, path, body, token=token).status
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", path, headers={**UPGRADE, "Authorization": f"Bearer {token}"})
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_routes_of_a_job_are_found() -> None:
    assert len(ROUTES) >= 11
    assert ("WS", "/api/v1/training/{ref}/stream") in ROUTES


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda value: str(value))
def test_a_stranger_gets_404(server: Server, job_id: str, stranger: str, method: str, path: str) -> None:
    for reference in (job_id, job_id[:30], "mine", "last"):
        assert status_of(server, method, path.replace("{ref}", reference), stranger) == 404


@pytest.mark.parametrize(
    ("method", "path"), [r for r in ROUTES if r[0] in ("GET", "WS")], ids=lambda v: str(v)
)
def test_the_owner_gets_an_answer(server: Server, job_id: str, method: str, path: str) -> None:
    wanted = (409,) if path.endswith("/shell") else (101, 200)  # an ended job has no machine to enter
    wanted = (404,) if path.count("{") > 1 else wanted  # it has no such file
    assert status_of(server, method, path.replace("{ref}", job_id), server.token) in wanted


def test_lists_of_a_stranger_are_empty(server: Server, job_id: str, stranger: str) -> None:
    assert server.ask("GET", "/api/v1/training", token=stranger).json["jobs"] == []
    queue = server.ask("GET", "/api/v1/queue", token=stranger).json
    assert queue["jobs"] == queue["running"] == []
    assert server.ask("GET", "/api/v1/secrets", token=stranger).json == {"secrets": []}
    nothing: dict[str, object] = {"machines": [], "leftovers": [], "silent": {}}
    assert server.ask("GET", "/api/v1/machines", token=stranger).json == nothing
    assert server.ask("GET", "/api/v1/monitoring/gpu", token=stranger).json["attempts"] == []
    assert all(
        token["organisation"] == "elsewhere"
        for token in server.ask("GET", "/api/v1/tokens", token=stranger).json["tokens"]
    )


def test_a_stranger_gets_no_events_of_another_organisation(
    server: Server, job_id: str, stranger: str
) -> None:
    theirs = server.ask("POST", "/api/v1/training", {"command": ["true"]}, token=stranger).json["id"]
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", "/api/v1/stream", headers={"Authorization": f"Bearer {stranger}"})
    line = connection.getresponse().readline().decode()
    connection.close()
    assert re.search(r'"job_id": ?"([^"]+)"', line).group(1) == theirs  # type: ignore[union-attr]


def test_an_archive_is_not_visible_to_another_organisation(server: Server, stranger: str) -> None:
    import hashlib

    archive = b"not really a tar, but some bytes"
    path = f"/api/v1/uploads/{hashlib.sha256(archive).hexdigest()}"
    assert server.ask("PUT", path, archive).status == 201
    assert server.ask("PUT", path, archive).status == 200
    assert server.ask("HEAD", path).status == 200
    assert server.ask("HEAD", path, token=stranger).status == 404


def test_only_the_operator_creates_tokens_for_other_organisations(server: Server, stranger: str) -> None:
    wanted = {"organisation": "local", "role": "admin"}
    assert server.ask("POST", "/api/v1/tokens", wanted, token=stranger).status == 403
    assert server.ask("POST", "/api/v1/tokens", {"role": "operator"}, token=stranger).status == 403
    for path in ("/metrics", "/api/v1/gc"):
        method = "GET" if path == "/metrics" else "POST"
        assert server.ask(method, path, token=stranger).status == 403


def test_tenant_id_must_be_the_tokens_organisation(server: Server, stranger: str) -> None:
    body = {"tenant_id": "local", "model_params": {"architecture": "yolo"}, "training_params": {"epochs": 1}}
    assert server.ask("POST", "/orchestrate", body, token=stranger).status == 403
    assert server.ask("POST", "/api/v1/training", body, token=stranger).status == 403
