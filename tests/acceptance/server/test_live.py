"""One WebSocket follows the project and several jobs, with cursors for each."""

import base64
import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server
from websockets.exceptions import ConnectionClosed, ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

Message = dict[str, Any]
LIMIT_S = 60.0
SCRIPT = """
import time
for step in range(300):
    print(f"step={step} loss={1 / (step + 1):.6f}", flush=True)
    if step % 10 == 0:
        time.sleep(0.02)
"""
PAUSED = """
import anygpu, pathlib, time
for step in range(3):
    anygpu.log(loss=1.0 / (step + 1), step=step)
    anygpu.progress(step=step + 1, steps=10)
while not pathlib.Path({path!r}).exists():
    time.sleep(0.05)
anygpu.log(loss=0.05, step=9)
anygpu.progress(step=10, steps=10)
"""


@pytest.fixture(scope="module")
def server(shared_server: Server) -> Server:
    return shared_server


class Live:
    """A client of `/api/v1/live`."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def follow(self, follow_id: str, **options: Any) -> None:
        self.send(op="follow", id=follow_id, **options)

    def next(self) -> Message:
        """Return the next message that is not a ping."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            message: Message = json.loads(self.socket.recv(timeout=LIMIT_S))
            if message.get("kind") != "ping":
                return message
        raise AssertionError("no message")

    def until(self, is_wanted: Callable[[Message], bool]) -> Message:
        """Return the first message of any follow that is wanted."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for message in self.next().get("messages", ()):
                if is_wanted(message):
                    return dict(message)
        raise AssertionError("no such message")

    def problem(self) -> Message:
        message = self.next()
        assert "problem" in message, message
        return message


@contextmanager
def open_live(server: Server, token: str = "") -> Iterator[Live]:
    url = f"{server.url.replace('http', 'ws', 1)}/api/v1/live"
    headers = {"Authorization": f"Bearer {token or server.token}"}
    with connect(url, additional_headers=headers, proxy=None, max_size=None, max_queue=None) as socket:
        yield Live(socket)


def is_summary_of(job_id: str, **wanted: Any) -> Callable[[Message], bool]:
    def check(message: Message) -> bool:
        job = message.get("job", {})
        return job.get("id") == job_id and all(job[name] == value for name, value in wanted.items())

    return check


class Follower:
    """Keeps the cursor of one job between connections, and everything that it was sent."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.cursor = {"after": 0, "attempt": 0, "log": 0, "point": 0}
        self.positions: list[int] = []
        self.log = b""
        self.steps: list[int] = []
        self.end: Message | None = None

    def take(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "event":
            self.cursor["after"] = message["after"]
            self.positions.append(message["after"])
        if kind in ("log", "metrics") and message["attempt"] != self.cursor["attempt"]:
            self.cursor |= {"attempt": message["attempt"], "log": 0, "point": 0}
        if kind == "log":
            self.cursor["log"] = message["log"]
            self.log += base64.b64decode(message["data"])
        if kind == "metrics":
            self.cursor["point"] = message["point"]
            self.steps += [step for name, step, _, _ in message["points"] if name == "loss"]


def test_a_client_that_reconnects_at_random_gets_everything_once(server: Server) -> None:
    followers = {f"j{n}": Follower(server.submit(code=SCRIPT)) for n in range(2)}
    chance = random.Random(11)
    while any(each.end is None for each in followers.values()):
        with open_live(server) as live:
            for follow_id, each in followers.items():
                if each.end is None:
                    live.follow(follow_id, job=each.job_id, **each.cursor)
            for _ in range(chance.randint(1, 12)):
                message = live.next()
                follower = followers[message["id"]]
                follower.end = message.get("end")
                for one in message.get("messages", ()):
                    follower.take(one)
                if all(each.end is not None for each in followers.values()):
                    break
    for each in followers.values():
        events = server.ask("GET", f"/api/v1/training/{each.job_id}/events").json["events"]
        assert each.positions == [event["position"] for event in events]
        assert each.log == server.ask("GET", f"/api/v1/training/{each.job_id}/logs").data
        assert each.steps == list(range(300))
        assert each.end == {"status": "completed"}


def test_a_project_follow_from_now_starts_with_its_position(server: Server) -> None:
    server.wait_ended(server.submit(command=["true"]))
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        first = live.next()
        assert first["id"] == "p"
        (position,) = first["messages"]
        assert position["kind"] == "position"
        job_id = server.submit(command=["true"])
        event = live.until(lambda message: message["kind"] == "event")
        assert (event["after"], event["event"]["job_id"]) == (position["after"] + 1, job_id)


def test_events_of_the_project_continue_after_the_cursor(server: Server) -> None:
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        start = live.next()["messages"][0]["after"]
    job_id = server.submit(command=["true"])
    server.wait_ended(job_id)
    head = server.ask("GET", f"/api/v1/training/{job_id}/events").json["next_after"]
    seen: list[int] = []
    while len(seen) < head - start:
        with open_live(server) as live:
            live.follow("p", project=True, after=seen[-1] if seen else start)
            message = live.until(lambda message: message["kind"] == "event")
            seen.append(message["after"])
    assert seen == list(range(start + 1, head + 1))


def test_a_cursor_of_another_database_starts_at_the_newest_event(server: Server) -> None:
    with open_live(server) as live:
        live.follow("p", project=True, after=2**50)
        assert live.next()["messages"][0]["kind"] == "position"


def test_a_client_that_was_away_for_long_starts_at_the_newest_event(server: Server) -> None:
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        start = live.next()["messages"][0]["after"]
    job_id = server.submit(command=["true"])
    server.wait_ended(job_id)
    head = server.ask("GET", f"/api/v1/training/{job_id}/events").json["next_after"]
    with open_live(server) as live:
        live.follow("far", project=True, after=start, max_replay=1)
        first = live.next()["messages"][0]
        assert first["kind"] == "position"
        assert first["after"] >= head
    with open_live(server) as live:
        live.follow("near", project=True, after=start, max_replay=2000)
        event = live.until(lambda message: message["kind"] == "event")
        assert event["after"] == start + 1


def test_summaries_show_state_and_progress_of_changed_jobs(server: Server, tmp_path: Any) -> None:
    go_on = tmp_path / "go"
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        job_id = server.submit(code=PAUSED.format(path=str(go_on)), name="paused", tags=["live"])
        queued = live.until(is_summary_of(job_id))["job"]
        assert (queued["name"], queued["tags"]) == ("paused", ["live"])
        live.until(lambda m: is_summary_of(job_id)(m) and m["job"]["progress"]["step"] == 2)
        go_on.touch()
        done = live.until(is_summary_of(job_id, status="completed"))["job"]
        assert done["progress"]["fraction"] == 1.0
    listed = server.ask("GET", f"/api/v1/training/{job_id}").json
    assert {name: listed[name] for name in done} == done


def test_a_new_follower_is_shown_running_jobs_and_those_that_changed(server: Server) -> None:
    running = server.submit(command=["sleep", "600"])
    server.wait(running, lambda job: job["phase"] == "training")
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        start = live.next()["messages"][0]["after"]
        live.until(is_summary_of(running, status="running"))
    ended = server.submit(command=["true"])
    server.wait_ended(ended)
    with open_live(server) as live:
        live.follow("p", project=True, after=start)
        live.until(is_summary_of(ended, status="completed"))
    server.ask("POST", f"/api/v1/training/{running}/cancel")


def test_a_job_gets_at_most_one_summary_a_second(server: Server) -> None:
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        started = time.monotonic()
        job_id = server.submit(code=SCRIPT)
        count = 0
        while True:
            found = live.until(is_summary_of(job_id))
            count += 1
            if found["job"]["ended_at"]:
                break
        assert count <= time.monotonic() - started + 2


def test_a_viewer_follows_too(server: Server) -> None:
    token = server.new_token(role="viewer")
    job_id = server.submit(command=["true"])
    with open_live(server, token) as live:
        live.follow("j", job=job_id)
        live.until(lambda message: message["kind"] == "event")


def test_the_job_of_another_organisation_is_not_found(server: Server) -> None:
    job_id = server.submit(command=["true"])
    token = server.new_token(organisation="elsewhere", role="admin")
    with open_live(server, token) as live:
        live.follow("j", job=job_id)
        message = live.problem()
        assert (message["id"], message["problem"]["status"]) == ("j", 404)
        live.follow("p", project=True, after=0)
        server.wait_ended(job_id)
        own = server.ask("POST", "/api/v1/training", {"command": ["true"]}, token=token).json["id"]
        while True:
            seen = live.next()["messages"]
            jobs = {m["job"]["id"] if "job" in m else m["event"]["job_id"] for m in seen}
            assert jobs == {own}
            if any("job" in message for message in seen):
                break


MALFORMED = [
    ("nonsense", "malformed_request"),
    ("[1]", "malformed_request"),
    ('{"op": "dance", "id": "x"}', "invalid_spec"),
    ('{"op": "follow", "id": "x"}', "invalid_spec"),
    ('{"op": "follow", "id": "", "project": true}', "invalid_spec"),
    ('{"op": "follow", "id": "x", "project": true, "job": "last"}', "invalid_spec"),
    ('{"op": "follow", "id": "x", "job": "last", "after": -1}', "invalid_spec"),
    ('{"op": "follow", "id": "x", "job": "last", "after": "now"}', "invalid_spec"),
    ('{"op": "follow", "id": "x", "job": "last", "include": ["secrets"]}', "invalid_spec"),
    ('{"op": "follow", "id": "x", "job": "no such job"}', "not_found"),
    ('{"op": "follow", "id": "x", "project": true, "max_replay": -1}', "invalid_spec"),
    ('{"op": "unfollow"}', "invalid_spec"),
]


def test_a_wrong_message_is_a_problem_and_the_connection_goes_on(server: Server) -> None:
    job_id = server.submit(command=["true"])
    with open_live(server) as live:
        live.socket.send(b"bytes")
        assert live.problem()["problem"]["code"] == "malformed_request"
        for text, code in MALFORMED:
            live.socket.send(text)
            assert live.problem()["problem"]["code"] == code, text
        live.send(op="unfollow", id="unknown")
        live.follow("j", job=job_id)
        live.until(lambda message: message["kind"] == "event")


def test_a_connection_has_at_most_64_follows_enough_to_compare_40_runs(server: Server) -> None:
    job_id = server.submit(command=["sleep", "600"])
    with open_live(server) as live:
        for number in range(64):
            live.follow(f"j{number}", job=job_id, after=2**50, include=["events"])
        live.follow("too many", job=job_id)
        message = live.problem()
        assert (message["id"], message["problem"]["code"]) == ("too many", "conflict")
        live.send(op="unfollow", id="j0")
        live.follow("j64", job=job_id, include=["events"])
        assert live.next()["id"] == "j64"
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")


def test_a_follow_beyond_the_servers_limit_succeeds_later(new_server: Callable[..., Server]) -> None:
    server = new_server(ANYGPU_LIMITS__FOLLOWERS="1")
    job_id = server.submit(command=["true"])
    server.wait_ended(job_id)
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        live.next()
        live.follow("job", job=job_id)
        while (message := live.next())["id"] != "job":
            assert message["id"] == "p"
        refused = message["problem"]
        assert (refused["code"], refused["retryable"]) == ("rate_limited", True)
        live.send(op="unfollow", id="p")
        live.follow("job", job=job_id)
        live.until(lambda message: message["kind"] == "event")


def test_nothing_is_sent_after_unfollow(server: Server) -> None:
    job_id = server.submit(command=["true"])
    server.wait_ended(job_id)
    with open_live(server) as live:
        live.follow("a", job=job_id, include=["logs"])
        live.send(op="unfollow", id="a")
        live.follow("b", job=job_id, include=["events"])
        while (message := live.next())["id"] != "b":
            assert message["id"] == "a"
        rest = [message]
        while "end" not in rest[-1]:
            rest.append(live.next())
        assert {each["id"] for each in rest} == {"b"}


def test_the_connection_ends_with_its_token(server: Server) -> None:
    made = server.ask("POST", "/api/v1/tokens", {"role": "viewer"}).json
    with open_live(server, made["token"]) as idle, open_live(server, made["token"]) as busy:
        busy.follow("p", project=True, after="now")
        busy.next()
        assert server.ask("DELETE", f"/api/v1/tokens/{made['id']}").status == 204
        for live in (idle, busy):
            messages: list[Message] = []
            with pytest.raises(ConnectionClosedError, match="1008"):
                messages.extend(json.loads(text) for text in live.socket)
            assert messages[-1]["problem"]["code"] == "unauthorized"


def test_the_feed_ends_with_its_last_follower(server: Server) -> None:
    with open_live(server) as live:
        live.follow("p", project=True, after="now")
        live.next()
    end = time.monotonic() + LIMIT_S
    while b"anygpu_stream_followers 0\n" not in server.ask("GET", "/metrics").data:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_agent_is_told_while_a_page_watches_its_job(server: Server) -> None:
    job_id = server.submit(command=["sleep", "600"])
    server.wait(job_id, lambda job: job["phase"] == "training")
    folder = server.state / "attempts" / f"anygpu-{job_id.replace('-', '')}-1"
    token = json.loads((folder / "work.json").read_text())["token"]

    def is_watched() -> bool:
        answer = server.ask("POST", "/agent/v1/heartbeat", token=token, base=server.agent_url).json
        return bool(answer["watched"])

    assert not is_watched()
    with open_live(server) as live:
        live.follow("j", job=job_id, after=0)
        live.next()
        assert is_watched()
    end = time.monotonic() + LIMIT_S
    while is_watched():
        assert time.monotonic() < end
        time.sleep(0.05)
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")


def test_a_stopping_server_asks_clients_to_connect_again(new_server: Callable[..., Server]) -> None:
    server = new_server()
    with open_live(server) as idle, open_live(server) as busy:
        busy.follow("p", project=True, after="now")
        busy.next()
        server.process.send_signal(signal.SIGTERM)
        for live in (idle, busy):
            with pytest.raises(ConnectionClosed, match="1012"):
                list(live.socket)


def test_a_slow_client_does_not_delay_others(server: Server) -> None:
    code = "for i in range(60000): print(i, 'x' * 200)"
    job_id = server.submit(code=code)
    with open_live(server) as slow, open_live(server) as quick:
        slow.follow("j", job=job_id)
        quick.follow("j", job=job_id)
        while "end" not in quick.next():
            pass
        while "end" not in slow.next():
            pass
