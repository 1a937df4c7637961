"""Browser sessions and open streams end with the token they were made from."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.acceptance.server.real_server import Answer, Server
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_websocket

TRAINING = "/api/v1/training"
STREAM_END_S = 60  # a stream ends within 5 s; a busy machine takes longer


class Browser:
    """A browser that has logged in with a link."""

    def __init__(self, server: Server, token: str) -> None:
        self._server = server
        link = server.ask("POST", "/api/v1/login/links", token=token).json["url"]
        answer = server.ask("GET", link.removeprefix(server.url), token=None)
        self.headers = {"Cookie": answer.headers["set-cookie"].split(";")[0], "Origin": server.url}

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self._server.ask(method, path, body, token=None, headers=self.headers)


def create_token(server: Server, **wanted: Any) -> dict[str, Any]:
    answer = server.ask("POST", "/api/v1/tokens", wanted)
    assert answer.status == 201, answer.data
    created: dict[str, Any] = answer.json
    return created


def revoke(server: Server, token_id: str) -> None:
    assert server.ask("DELETE", f"/api/v1/tokens/{token_id}").status == 204


def test_the_session_of_a_revoked_administrator_creates_no_token(server: Server) -> None:
    admin = create_token(server, role="admin")
    browser = Browser(server, admin["token"])
    assert browser.ask("POST", "/api/v1/tokens", {"role": "admin"}).status == 201
    second_link = browser.ask("POST", "/api/v1/login/links").json["url"]
    revoke(server, admin["id"])
    assert browser.ask("POST", "/api/v1/tokens", {"role": "admin"}).status == 401
    assert browser.ask("GET", "/api/v1/whoami").status == 401
    assert server.ask("GET", second_link.removeprefix(server.url), token=None).status == 401
    listed = server.ask("GET", "/api/v1/tokens").json["tokens"]
    assert [each for each in listed if each["purpose"] == "session"] == []


@pytest.mark.extended
def test_a_session_ends_when_its_token_expires(server: Server) -> None:
    browser = Browser(server, create_token(server, expires_s=10)["token"])
    assert browser.ask("GET", "/api/v1/whoami").status == 200
    wait_until(lambda: browser.ask("GET", "/api/v1/whoami").status == 401)


def test_an_administrator_cannot_revoke_the_operator(server: Server) -> None:
    admin = create_token(server, role="admin")
    operator = create_token(server, role="operator", name="second operator")
    path = f"/api/v1/tokens/{operator['id']}"
    refused = server.ask("DELETE", path, token=admin["token"])
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    assert server.ask("GET", "/api/v1/whoami", token=operator["token"]).status == 200
    assert server.ask("DELETE", path).status == 204


def test_the_operator_lists_and_revokes_tokens_of_every_organisation(server: Server) -> None:
    other = create_token(server, role="admin", organisation="elsewhere", project="p")
    query = "?organisation=elsewhere&project=p"
    listed = server.ask("GET", f"/api/v1/tokens{query}").json["tokens"]
    assert [each["id"] for each in listed] == [other["id"]]
    assert server.ask("GET", "/api/v1/tokens?organisation=local", token=other["token"]).status == 403
    own = create_token(server, role="member")
    assert server.ask("DELETE", f"/api/v1/tokens/{own['id']}", token=other["token"]).status == 404
    revoke(server, other["id"])
    assert server.ask("GET", "/api/v1/whoami", token=other["token"]).status == 401


class NdjsonStream:
    def __init__(self, server: Server, path: str, headers: dict[str, str]) -> None:
        parts = urlsplit(server.url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=STREAM_END_S)
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self.first = json.loads(self._response.readline())

    def rest(self) -> list[Any]:
        """Return the messages until the server ends the stream."""
        messages = [json.loads(line) for line in self._response]
        self._connection.close()
        return messages


@pytest.fixture(scope="module")
def job_id(server: Server) -> str:
    job_id = server.submit(command=["sleep", "600"], name="long")
    server.wait(job_id, lambda job: job["phase"] == "training")
    return job_id


@pytest.mark.parametrize("path", ["/api/v1/stream", f"{TRAINING}/long/stream"])
@pytest.mark.parametrize("by_session", [False, True])
def test_a_stream_ends_when_its_token_is_revoked(
    server: Server, job_id: str, path: str, by_session: bool
) -> None:
    made = create_token(server, role="member")
    headers = {"Authorization": f"Bearer {made['token']}"}
    if by_session:
        headers = Browser(server, made["token"]).headers
    stream = NdjsonStream(server, path, headers)
    assert stream.first["kind"] == "event"
    revoke(server, made["id"])
    assert stream.rest()[-1]["problem"]["code"] == "unauthorized"


@pytest.mark.extended
def test_a_stream_ends_when_its_token_expires(server: Server, job_id: str) -> None:
    made = create_token(server, role="viewer", expires_s=10)
    stream = NdjsonStream(server, "/api/v1/stream", {"Authorization": f"Bearer {made['token']}"})
    assert stream.rest()[-1]["problem"]["code"] == "unauthorized"


def open_websocket(server: Server, token: str) -> ClientConnection:
    url = server.url.replace("http://", "ws://") + "/api/v1/stream"
    return connect_websocket(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None)


def test_a_websocket_ends_when_its_token_is_revoked(server: Server, job_id: str) -> None:
    made = create_token(server, role="member")
    with open_websocket(server, made["token"]) as websocket:
        assert json.loads(websocket.recv(timeout=STREAM_END_S))["kind"] == "event"
        revoke(server, made["id"])
        messages: list[Any] = []
        with pytest.raises(ConnectionClosedError, match="1008"):
            messages.extend(json.loads(text) for text in websocket)
    assert messages[-1]["problem"]["code"] == "unauthorized"


def test_other_streams_go_on(server: Server, job_id: str) -> None:
    revoked, kept = create_token(server, role="viewer"), create_token(server, role="viewer")
    with open_websocket(server, kept["token"]) as websocket:
        stream = NdjsonStream(server, "/api/v1/stream", {"Authorization": f"Bearer {revoked['token']}"})
        revoke(server, revoked["id"])
        stream.rest()
        marker = server.submit(command=["true"])
        for text in websocket:
            if json.loads(text).get("event", {}).get("job_id") == marker:
                break


def test_logs_follow_ends_with_a_message(server: Server, job_id: str, tmp_path: Path) -> None:
    made = create_token(server, role="member")
    command = [str(Path(sys.executable).with_name("anygpu")), "logs", "-f", job_id]
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "ANYGPU_URL": server.url,
        "ANYGPU_TOKEN": made["token"],
    }
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
    ) as logs:
        wait_until(lambda: b"anygpu_stream_followers 1\n" in server.ask("GET", "/metrics").data)
        revoke(server, made["id"])
        _, message = logs.communicate(timeout=STREAM_END_S)
    assert logs.returncode != 0
    assert b"token" in message
    assert b"Traceback" not in message


def wait_until(condition: Callable[[], bool], limit_s: float = STREAM_END_S) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
