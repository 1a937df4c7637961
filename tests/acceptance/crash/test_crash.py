"""Fifty jobs; the server, agents and trainers are killed at random; answers are swallowed. Nothing may be lost."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.host import processes
from anygpu.testing.servers.dropping_proxy import DroppingProxy

JOBS, STEPS, SERVER_KILLS, WORKER_KILLS = 50, 25, 10, 16
SEED = int(os.environ.get("CRASH_SEED", "7"))
VICTIM = Path(__file__).with_name("victim.py")
LIMIT_S = 240


class Server:
    """The real server as a process that can be killed and started again on the same state and ports."""

    def __init__(self, state: Path, agent_proxy_url: str, port: int, agent_port: int) -> None:
        self.state, self.port = state, port
        self.env = {
            **os.environ,
            "ANYGPU_STATE": str(state),
            "ANYGPU_CONFIG": str(state.parent / "config.toml"),
            "ANYGPU_SERVER__PORT": str(port),
            "ANYGPU_SERVER__AGENT_PORT": str(agent_port),
            "ANYGPU_SERVER__AGENT_URL": agent_proxy_url,
            "ANYGPU_LOCAL__CPUS": "8",
            "ANYGPU_LIMITS__REQUESTS_PER_S": "0",
        }
        (state.parent / "config.toml").touch()
        self.starts = 0
        self.process = self.start()

    def start(self) -> "subprocess.Popen[bytes]":
        self.starts += 1
        with (self.state.parent / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "anygpu.server"], env=self.env, stdout=log, stderr=log
            )
        self.wait_ready()
        return self.process

    def wait_ready(self) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert self.process.poll() is None, (self.state.parent / "server.log").read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError("the server did not become ready")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Client:
    """Submits through the swallowing proxy, retrying with an idempotency key as a careful client does."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def call(self, method: str, path: str, body: Any = None, timeout_s: float = 10) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            return json.load(answer)

    def insist(self, method: str, path: str, body: Any = None) -> Any:
        end = time.monotonic() + 60
        while True:
            try:
                return self.call(method, path, body)
            except urllib.error.HTTPError:
                raise
            except (OSError, ValueError, HTTPException) as error:
                if time.monotonic() > end:
                    raise AssertionError(f"no answer to {method} {path}") from error
                time.sleep(0.05)


class Follower(threading.Thread):
    """Reads the project's stream through the proxy, reconnecting with its cursor for as long as the test runs."""

    def __init__(self, client: Client) -> None:
        super().__init__(daemon=True)
        self.client, self.after = client, 0
        self.events: list[dict[str, Any]] = []
        self.connections = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.is_set():
            try:
                self._follow()
            except (OSError, ValueError, HTTPException):
                time.sleep(0.05)

    def _follow(self) -> None:
        request = urllib.request.Request(f"{self.client.url}/api/v1/stream?after={self.after}")
        request.add_header("Authorization", f"Bearer {self.client.token}")
        with urllib.request.urlopen(request, timeout=30) as stream:
            self.connections += 1
            for line in stream:
                message = json.loads(line)
                if message["kind"] == "event":
                    self.events.append(message["event"])
                    self.after = message["after"]
                if self.done.is_set():
                    return


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def kill_one(state: Path, chance: random.Random, file: str) -> bool:
    """SIGKILL a random living agent (agent.json) or trainer (process.json)."""
    found = sorted((state / "attempts").glob(f"anygpu-*/{file}"))
    chance.shuffle(found)
    for path in found:
        try:
            pid = json.loads(path.read_text())["pid"]
            name = path.parent.name.encode()
            if b"ANYGPU_NAME=" + name in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return True
        except (OSError, ValueError, KeyError):
            continue
    return False


def havoc(server: Server, chance: random.Random) -> dict[str, int]:
    """Kill things at random moments until the quota is used up, or nothing is left to kill."""
    todo = ["server"] * SERVER_KILLS + ["agent.json", "process.json"] * (WORKER_KILLS // 2)
    chance.shuffle(todo)
    killed = {"server": 0, "agent.json": 0, "process.json": 0}
    missed = 0
    while todo and missed < 20:
        time.sleep(chance.uniform(0.2, 1.0))
        what = todo.pop()
        if what == "server":
            server.kill()
            time.sleep(chance.uniform(0, 0.5))
            server.start()
            killed[what] += 1
        elif kill_one(server.state, chance, what):
            killed[what] += 1
            missed = 0
        else:
            missed += 1
            todo.insert(0, what)
    return killed


@pytest.fixture
def books(tmp_path: Path) -> Path:
    (tmp_path / "books").mkdir()
    return tmp_path / "books"


@pytest.mark.extended
def test_every_job_ends_once_and_nothing_acknowledged_is_lost(tmp_path: Path, books: Path) -> None:
    chance = random.Random(SEED)
    port, agent_port = free_port(), free_port()
    with (
        DroppingProxy(port, seed=SEED, drop=0.05) as api,
        DroppingProxy(agent_port, seed=SEED + 1, drop=0.05) as agents,
    ):
        server = Server(tmp_path / "state", agents.url, port, agent_port)
        try:
            client = Client(api.url, (tmp_path / "state" / "token").read_text().strip())
            follower = Follower(client)
            follower.start()
            ids = [submit(client, books, number) for number in range(JOBS)]
            killed = havoc(server, chance)
            wait_for_the_end(client, ids)
            follow_to_the_end(follower, client)
            direct = Client(f"http://127.0.0.1:{port}", client.token)
            assert check_evidence(direct, books, ids) > JOBS, "some jobs were tried more than once"
        finally:
            server.kill()
            end_everything(tmp_path / "state")
    assert killed["server"] == SERVER_KILLS
    assert killed["agent.json"] > 0
    assert killed["process.json"] > 0
    assert api.dropped > 0
    assert agents.dropped > 0
    check_terminal(tmp_path / "state", ids)
    check_never_twice(books)
    check_stream(follower)
    check_acknowledged(tmp_path / "state", agents.acked)


def end_everything(state: Path) -> None:
    for directory in (state / "attempts").glob("anygpu-*/"):
        processes.kill_attempt(directory.name)


def submit(client: Client, books: Path, number: int) -> str:
    spec = {
        "code": VICTIM.read_text()
        .replace("sys.argv[1]", repr(str(books)))
        .replace("sys.argv[2]", str(STEPS)),
        "name": f"victim-{number}",
        "outputs": ["result.txt"],
        "limits": {"max_retries": 1000},
        "idempotency_key": f"crash-{number}",
    }
    answer = client.insist("POST", "/api/v1/training", spec)
    return str(answer["id"])


def wait_for_the_end(client: Client, ids: list[str]) -> None:
    end = time.monotonic() + LIMIT_S
    left = list(ids)
    while left:
        if time.monotonic() > end:
            jobs = [client.insist("GET", f"/api/v1/training/{job_id}") for job_id in left[:3]]
            raise AssertionError(f"{len(left)} jobs did not end, such as {json.dumps(jobs, indent=1)[:4000]}")
        left = [i for i in left if client.insist("GET", f"/api/v1/training/{i}")["ended_at"] is None]
        time.sleep(0.2)


def follow_to_the_end(follower: Follower, client: Client) -> None:
    head = max(
        e["position"] for e in client.insist("GET", "/api/v1/training/last/events?limit=1000")["events"]
    )
    end = time.monotonic() + 30
    while follower.after < head and time.monotonic() < end:
        time.sleep(0.05)
    follower.done.set()


def rows(state: Path, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with sqlite3.connect(state / "anygpu.db") as db:
        return db.execute(query, parameters).fetchall()


def check_terminal(state: Path, ids: list[str]) -> None:
    assert len(set(ids)) == JOBS
    kinds = ("JobCompleted", "JobFailed", "JobCancelled")
    ends = rows(state, f"select job_id, kind from events where kind in {kinds}")
    assert sorted(job for job, _ in ends) == sorted(ids), "every job has exactly one terminal event"
    assert {kind for _, kind in ends} == {"JobCompleted"}
    submitted = rows(state, "select job_id from events where kind = 'JobSubmitted'")
    assert sorted(job for (job,) in submitted) == sorted(ids), "a retried submit makes no second job"


def check_never_twice(books: Path) -> None:
    assert [path.name for path in books.glob("*.twice")] == []


def check_stream(follower: Follower) -> None:
    positions = [event["position"] for event in follower.events]
    assert positions == list(range(1, len(positions) + 1)), "every event once, in order, without a gap"
    assert follower.connections > SERVER_KILLS


def check_evidence(client: Client, books: Path, ids: list[str]) -> int:
    """What is stored of each attempt is what the job wrote in its own books: once, in order, from the start."""
    attempts = 0
    for job_id in ids:
        job = client.call("GET", f"/api/v1/training/{job_id}")
        for attempt in job["attempts"]:
            attempts += 1
            check_attempt(client, books, job_id, attempt)
        assert job["attempts"][-1]["exit_code"] == 0
        assert [a["name"] for a in client.call("GET", f"/api/v1/training/{job_id}/artifacts")["artifacts"]]
    return attempts


def check_attempt(client: Client, books: Path, job_id: str, attempt: dict[str, Any]) -> None:
    number = attempt["number"]
    said, logged = (read(books / f"{job_id}.{number}.{kind}") for kind in ("said", "logged"))
    stored = [line for line in log_lines(client, job_id, number) if line.startswith("attempt ")]
    steps = [str(point[0]) for point in points(client, job_id, number)]
    assert stored == said[: len(stored)], (
        f"attempt {number} of {job_id}: log lines lost, doubled or reordered"
    )
    assert steps == logged[: len(steps)], f"attempt {number} of {job_id}: points lost, doubled or reordered"
    if attempt["outcome"] == "exited":
        # A trainer killed between its own books and its output said one thing less than it noted.
        slack = 0 if attempt["exit_code"] == 0 else 1
        assert len(said) - len(stored) <= slack
        assert len(logged) - len(steps) <= slack


def log_lines(client: Client, job_id: str, attempt: int) -> list[str]:
    request = urllib.request.Request(
        f"{client.url}/api/v1/training/{job_id}/logs?attempt={attempt}&offset=0&limit=1000000"
    )
    request.add_header("Authorization", f"Bearer {client.token}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        whole: bytes = answer.read()
    return whole.decode().split("\n")[:-1]


def points(client: Client, job_id: str, attempt: int) -> list[list[Any]]:
    answer = client.call(
        "GET", f"/api/v1/training/{job_id}/metrics?attempt={attempt}&name=value&points=10000"
    )
    return [point for series in answer["series"] for point in series["points"]]


def read(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def check_acknowledged(state: Path, acked: dict[tuple[str, int], int]) -> None:
    stored = {(job, n): seq for job, n, seq in rows(state, "select job_id, number, acked from attempts")}
    assert acked
    assert [key for key, seq in acked.items() if stored.get(key, 0) < seq] == []
