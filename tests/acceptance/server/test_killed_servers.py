"""Two servers behind a proxy, one killed every ten seconds: jobs and clients lose nothing and get nothing twice."""

import itertools
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.real_server import Server
from tests.acceptance.server.test_streams import Client as WebSocketClient
from tests.acceptance.server.test_streams import websocket
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture
from tests.contracts.store.test_move import target  # noqa: F401 - a fixture
from websockets.exceptions import WebSocketException

from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client
from anygpu.sdk.http import Endpoint
from anygpu.sdk.stream import MessageStream
from anygpu.testing.servers.balancing_proxy import BalancingProxy

JOBS = 50
KILL_EVERY_S = 10.0
FOR_S = 120.0
SCRIPT = """
import time, zlib
end = time.time() + {seconds}
step = 0
while time.time() < end or step < 20:
    print(f"step={{step}} loss={{zlib.crc32(b'{name} %d' % step) / 7e8:.6f}}", flush=True)
    step += 1
    time.sleep(0.5)
print("wrote", step, flush=True)
"""


@dataclass
class Watched:
    """What one client received of a job."""

    events: list[int] = field(default_factory=list)
    log: bytes = b""
    steps: list[int] = field(default_factory=list)
    status: str = ""


class Pair:
    """Two servers on one database, behind a proxy."""

    def __init__(self, folder: Path, database: str, proxy: BalancingProxy) -> None:
        common = {
            "ANYGPU_STORE__DATABASE": database,
            "ANYGPU_STORE__BLOBS": (folder / "blobs").as_uri(),
            "ANYGPU_SERVER__SIGNING_KEY": str(folder / "signing.key"),
            "ANYGPU_LOCAL__ATTEMPTS": str(folder / "attempts"),
            "ANYGPU_LOCAL__CPUS": str(JOBS + 10),
            "ANYGPU_CONTROL__LEADER_TTL_S": "3",
            "ANYGPU_CONTROL__POLL_EVENTS_S": "0.5",
            "ANYGPU_CONTROL__SAFETY_NET_S": "2",
            "ANYGPU_AGENT__TELEMETRY_EVERY_S": "60",
        }
        self.proxy = proxy
        self.servers: list[Server] = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            self.servers.append(Server(folder / name, **common))
        self.kills = 0
        self.is_over = threading.Event()
        self.update_proxy()

    def update_proxy(self) -> None:
        self.proxy.set_targets([server.url for server in self.servers])

    def kill_next(self) -> None:
        """Kill one of the servers with SIGKILL, and start it again."""
        server = self.servers[self.kills % 2]
        self.kills += 1
        server.process.kill()
        server.process.wait()
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.start()
        self.update_proxy()

    def client(self) -> Client:
        endpoint = Endpoint(self.proxy.url, self.servers[0].token)
        return Client(lambda: endpoint)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


@pytest.fixture
def pair(target: str, tmp_path: Path) -> Iterator[Pair]:  # noqa: F811
    with ExitStack() as stack:
        proxy = stack.enter_context(BalancingProxy())
        pair = Pair(tmp_path, target, proxy)
        stack.callback(pair.stop)
        yield pair
        pair.servers[0].cancel_everything()


def retry(call: Callable[[], Any], patience_s: float = 120.0) -> Any:
    """Repeat a call while no server answers, as a user would."""
    until = time.monotonic() + patience_s
    while True:
        try:
            return call()
        except AnygpuError as error:
            if not error.retryable or time.monotonic() > until:
                raise
            time.sleep(0.2)


def submit(pair: Pair, number: int, seconds: float) -> str:
    name = f"job-{number}"
    spec = {"code": SCRIPT.format(seconds=seconds, name=name), "name": name, "idempotency_key": name}
    return str(retry(lambda: pair.client().submit(spec))["id"])


def close_at_end(pair: Pair, stream: MessageStream) -> None:
    pair.is_over.wait()
    stream.close()


def watch_by_sdk(pair: Pair, job_id: str) -> Watched:
    seen = Watched()
    stream = pair.client().stream(job_id)
    threading.Thread(target=close_at_end, args=(pair, stream), daemon=True).start()
    for message in stream:
        if message["kind"] == "event":
            seen.events.append(message["after"])
        elif message["kind"] == "log":
            seen.log += message["data"]
        elif message["kind"] == "metrics":
            seen.steps += [point[1] for point in message["points"] if point[0] == "loss"]
        elif message["kind"] == "end":
            seen.status = message["status"]
    return seen


@dataclass
class Behind:
    """The address and token that a WebSocket client uses."""

    url: str
    token: str


def watch_by_websocket(pair: Pair, job_id: str) -> Watched:
    behind: Any = Behind(pair.proxy.url, pair.servers[0].token)
    client = WebSocketClient(behind, f"/api/v1/training/{job_id}/stream")
    while not client.ended and not pair.is_over.is_set():
        with suppress(OSError, EOFError, WebSocketException):
            websocket(client, 100)
        if not client.ended:
            time.sleep(0.1)
    steps = [
        point[1] for message in client.of("metrics") for point in message["points"] if point[0] == "loss"
    ]
    events = [message["after"] for message in client.of("event")]
    return Watched(events, client.log, steps, client.seen[-1]["status"])


def expected_log(name: str, steps: int) -> bytes:
    lines = [
        f"step={step} loss={zlib.crc32(b'%s %d' % (name.encode(), step)) / 7e8:.6f}" for step in range(steps)
    ]
    return "\n".join([*lines, f"wrote {steps}", ""]).encode()


def kill_servers(pair: Pair, seconds: float, every_s: float, stop: threading.Event) -> None:
    began = time.monotonic()
    for number in itertools.count(1):
        if stop.wait(max(0.0, began + number * every_s - time.monotonic())):
            return
        if time.monotonic() - began > seconds:
            return
        pair.kill_next()


def check(pair: Pair, number: int, job_id: str, seen: Watched) -> int:
    """Compare what a client received with what the script wrote. Return the number of steps."""
    name = f"job-{number}"
    job = retry(lambda: pair.client().job(job_id))
    assert (job["status"], seen.status) == ("completed", "completed"), job
    assert len(job["attempts"]) == 1, "it was not started again"
    steps = int(seen.log.rsplit(None, 1)[1])
    assert seen.log == expected_log(name, steps), name
    assert retry(lambda: pair.client().logs(job_id))[0] == seen.log
    assert seen.steps == list(range(steps)), name
    answer = pair.servers[0].ask("GET", f"/api/v1/training/{job_id}/events?limit=1000").json
    assert seen.events == [event["position"] for event in answer["events"]], name
    return steps


@pytest.mark.extended
@pytest.mark.timeout(1800)
def test_killed_servers_lose_nothing_and_double_nothing(pair: Pair) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(JOBS + 5) as threads:
        killing = threads.submit(kill_servers, pair, FOR_S, KILL_EVERY_S, stop)
        began, watching = time.monotonic(), {}
        for number in range(JOBS):
            seconds = max(20.0, FOR_S - (time.monotonic() - began))
            job_id = submit(pair, number, seconds)
            watch = watch_by_websocket if number % 2 else watch_by_sdk
            watching[number, job_id] = threads.submit(watch, pair, job_id)
        try:
            killing.result(timeout=FOR_S + 300)
            seen = {
                (number, job_id): _result(pair, job_id, watch) for (number, job_id), watch in watching.items()
            }
        finally:
            stop.set()
            pair.is_over.set()
    steps = [check(pair, number, job_id, seen[number, job_id]) for number, job_id in seen]
    assert pair.kills >= 4, "a start takes longer on a busy machine"
    print(f"{pair.kills} kills, {len(steps)} jobs, {sum(steps)} lines")
    jobs = retry(lambda: pair.client().jobs(limit=100))["jobs"]
    assert len(jobs) == JOBS, "a repeated submission is one job"


def _result(pair: Pair, job_id: str, watching: "Future[Watched]") -> Watched:
    try:
        return watching.result(timeout=480)
    except TimeoutError:
        job = retry(lambda: pair.client().job(job_id))
        logs = [server.error_log[-2000:] for server in pair.servers]
        raise AssertionError(f"the stream did not end: {job}, {logs}") from None
