"""Clients that reconnect at random get everything once and in order, by NDJSON and WebSocket."""

import base64
import http.client
import json
import random
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from tests.acceptance.server.real_server import Server
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

SCRIPT = """
import time, sys
for step in range(300):
    print(f"step={step} loss={1 / (step + 1):.6f}", flush=True)
    if step % 10 == 0:
        time.sleep(0.02)
sys.stdout.write("no newline at the end")
"""
Message = dict[str, Any]


@dataclass
class Client:
    """Remembers its cursor between connections, and everything it was sent."""

    server: Server
    path: str
    query: dict[str, int] = field(default_factory=dict)
    seen: list[Message] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return bool(self.seen) and self.seen[-1]["kind"] == "end"

    def take(self, message: Message) -> None:
        self.seen.append(message)
        if message["kind"] == "event":
            self.query["after"] = message["after"]
        if message["kind"] in ("log", "metrics"):
            if message["attempt"] != self.query.get("attempt"):
                self.query |= {"attempt": message["attempt"], "log": 0, "point": 0}
            cursor = "log" if message["kind"] == "log" else "point"
            self.query[cursor] = message[cursor]

    def of(self, kind: str) -> list[Message]:
        return [message for message in self.seen if message["kind"] == kind]

    @property
    def log(self) -> bytes:
        return b"".join(base64.b64decode(message["data"]) for message in self.of("log"))


def ndjson(client: Client, most: int) -> None:
    parts = urlsplit(client.server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=20)
    query = urlencode(client.query)
    connection.request(
        "GET", f"{client.path}?{query}", headers={"Authorization": f"Bearer {client.server.token}"}
    )
    answer = connection.getresponse()
    assert answer.status == 200
    for _ in range(most):
        line = answer.readline()
        if not line.endswith(b"\n"):
            break
        client.take(json.loads(line))
        if client.ended:
            break
    connection.close()


def websocket(client: Client, most: int) -> None:
    url = f"{client.server.url.replace('http', 'ws', 1)}{client.path}?{urlencode(client.query)}"
    headers = {"Authorization": f"Bearer {client.server.token}"}
    with connect(url, additional_headers=headers, proxy=None, max_size=None, max_queue=None) as socket:
        try:
            for _ in range(most):
                client.take(json.loads(socket.recv(timeout=20)))
                if client.ended:
                    break
        except ConnectionClosed:
            pass


@pytest.mark.parametrize("over", [ndjson, websocket])
def test_a_client_that_reconnects_at_random_misses_nothing(server: Server, over: Any) -> None:
    job_id = server.submit(code=SCRIPT)
    chance = random.Random(7)
    client = Client(server, f"/api/v1/training/{job_id}/stream")
    while not client.ended:
        over(client, chance.randint(1, 15))
    positions = [message["after"] for message in client.of("event")]
    events = server.ask("GET", f"/api/v1/training/{job_id}/events").json["events"]
    assert positions == [event["position"] for event in events]
    assert client.log.splitlines()[-1] == b"no newline at the end"
    assert client.log == server.ask("GET", f"/api/v1/training/{job_id}/logs").data
    points = [point for message in client.of("metrics") for point in message["points"]]
    steps = [point[1] for point in points if point[0] == "loss"]
    assert steps == list(range(300))
    assert client.seen[-1] == {"kind": "end", "status": "completed"}


def test_a_stream_of_the_project_has_every_event_in_order(server: Server) -> None:
    client = Client(server, "/api/v1/stream")
    jobs = {server.submit(command=["true"]) for _ in range(5)}
    for job_id in jobs:
        server.wait_ended(job_id)
    head = max(server.ask("GET", f"/api/v1/training/{j}/events").json["next_after"] for j in jobs)
    chance = random.Random(3)
    while (left := head - client.query.get("after", 0)) > 0:
        websocket(client, min(left, chance.randint(1, 9)))
    assert [message["after"] for message in client.of("event")] == list(range(1, client.query["after"] + 1))


def test_only_included_kinds_are_sent(server: Server) -> None:
    job_id = server.submit(command=["python", "-c", "print('loss=1')"])
    client = Client(server, f"/api/v1/training/{job_id}/stream")
    client.query["include"] = "logs"  # type: ignore[assignment]
    while not client.ended:
        ndjson(client, 100)
    assert {message["kind"] for message in client.seen} <= {"log", "end", "ping"}
    assert client.log == b"loss=1\n"


def test_logs_are_read_from_either_end(server: Server) -> None:
    job_id = server.submit(command=["python", "-c", "print('a' * 100); print('b' * 10)"])
    server.wait_ended(job_id)
    tail = server.ask("GET", f"/api/v1/training/{job_id}/logs?offset=-5")
    assert tail.data == b"bbbb\n"
    assert (tail.headers["x-log-start"], tail.headers["x-log-end"]) == ("107", "112")
    part = server.ask("GET", f"/api/v1/training/{job_id}/logs?offset=99&limit=4")
    assert part.data == b"a\nbb"
    assert server.ask("GET", f"/api/v1/training/{job_id}/logs?attempt=9").status == 404


def test_metrics_keep_their_extremes(server: Server) -> None:
    code = "\nfor i in range(2000): print(f'step={i} loss={99.5 if i == 777 else 5.25}')"
    job_id = server.submit(code=code)
    server.wait_ended(job_id)
    answer = server.ask("GET", f"/api/v1/training/{job_id}/metrics?name=loss&points=50").json
    (loss,) = answer["series"]
    assert (loss["count"], loss["max"]) == (2000, 99.5)
    assert len(loss["points"]) <= 50
    assert 99.5 in [point[2] for point in loss["points"]]
    assert answer["cursor"] >= 2000
