"""Measure durable metric points per second, against an MLflow server on SQLite with MLflow's own client."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from anygpu.control.agents.tickets import Tickets
from anygpu.store.vault.key_file import read_signing_key
from anygpu.wiring.server import ServerKeys
from bench.peers import python_with
from bench.server import BenchServer, Figure, quantile_ms

SECONDS = 8.0
NAMES = 10
MLFLOW_SERVER = ("server", "--host", "127.0.0.1", "--port", "5077", "--workers", "2")
MLFLOW_BATCH = 1000  # the most MlflowClient.log_batch sends in one request
BATCHES = "metric points stored per second, 1,000 per request"
SINGLES = "metric points stored per second, 1 per request"
LOADS = [(BATCHES, MLFLOW_BATCH, 1), (BATCHES, MLFLOW_BATCH, 4), (SINGLES, 1, 1), (SINGLES, 1, 50)]


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    seconds = 0.5 if quick else SECONDS
    theirs = [0.0] * len(LOADS) if quick else _mlflow_rates()
    steady = asyncio.run(load(server, clients=200, points=20, every_s=1.0, seconds=2 * seconds))
    figures = []
    for (what, points, clients), peer in zip(LOADS, theirs, strict=True):
        ours = asyncio.run(load(server, clients=clients, points=points, every_s=0, seconds=seconds))
        figures.append(_compare(what, ours.rate, peer, clients))
    return [*figures, _acknowledgement(steady)]


def _mlflow_rates() -> list[float]:
    with mlflow_server() as url:
        return [mlflow_rate(url, points, clients) for _, points, clients in LOADS]


def _compare(what: str, ours: float, theirs: float, clients: int) -> Figure:
    """Compare the rates of equally many clients. `theirs` is 0 when the peer was not measured."""
    ratio = ours / theirs if theirs else 0.0
    return Figure(
        what=what,
        ours=f"{ours:,.0f}/s",
        against=f"MLflow {theirs:,.0f}/s" if theirs else "",
        ratio=f"{ratio:.0f}x" if theirs else "",
        clients=f"{clients} and {clients}",
        target="at least 10x",
        met=ratio >= 10,
        how=f"{SECONDS:.0f} s; both use SQLite; anygpu confirms a point when it is on the disk",
    )


def _acknowledgement(ours: "Load") -> Figure:
    p99 = quantile_ms(ours.latencies, 0.99)
    return Figure(
        what="time until a report is confirmed, with 200 agents",
        ours=f"p99 {p99:.0f} ms",
        against=f"{ours.rate:,.0f} points/s in total",
        clients="200",
        target="p99 under 250 ms",
        met=p99 < 250 and ours.rate > 3400,
        how="each agent sends a batch of 20 points per second",
    )


class Load:
    def __init__(self) -> None:
        self.points = 0
        self.seconds = 0.0
        self.latencies: list[float] = []

    @property
    def rate(self) -> float:
        return self.points / self.seconds


async def load(
    server: BenchServer, *, clients: int, points: int, every_s: float, seconds: float = SECONDS
) -> Load:
    """`clients` agents, each sending numbered batches over its own connection, for a bounded time."""
    secret = ServerKeys.from_root(read_signing_key(server.state / "signing.key")).tickets
    job = server.call("POST", "/api/v1/training", {"command": "sleep 1", "priority": -1000})["id"]
    total = Load()
    started = time.perf_counter()
    end = started + seconds
    first = 1000 + int(time.time() * 10) % 1_000_000
    agents = [
        agent(
            server, Tickets(secret).token(job, first + n, "bench"), points, every_s, end, total, n / clients
        )
        for n in range(clients)
    ]
    await asyncio.gather(*agents)
    total.seconds = time.perf_counter() - started
    return total


async def agent(
    server: BenchServer, token: str, points: int, every_s: float, end: float, total: Load, phase: float
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.agent_port)
    seq = 0
    await asyncio.sleep(phase * every_s)
    due = time.perf_counter()
    while time.perf_counter() < end:
        seq += 1
        body = frame(seq, points)
        sent = time.perf_counter()
        writer.write(
            (
                f"POST /agent/v1/reports?first={seq}&last={seq} HTTP/1.1\r\nHost: 127.0.0.1:{server.agent_port}\r\n"
                f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
            ).encode()
            + body
        )
        answer = await read_answer(reader)
        if answer["acked"] != seq:
            raise RuntimeError(f"acknowledged {answer}, sent {seq}")
        total.latencies.append(time.perf_counter() - sent)
        total.points += points
        due += every_s
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    writer.close()


def frame(seq: int, points: int) -> bytes:
    at = time.time()
    step = seq * points
    values = [[f"metric_{i % NAMES}", step + i // NAMES, at, 1.0 / (step + i + 1)] for i in range(points)]
    return json.dumps({"seq": seq, "kind": "metrics", "points": values}).encode() + b"\n"


async def read_answer(reader: asyncio.StreamReader) -> dict[str, int]:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError(head.decode() + (await reader.read(500)).decode())
    length = next(
        int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length")
    )
    answer: dict[str, int] = json.loads(await reader.readexactly(length))
    return answer


@contextlib.contextmanager
def mlflow_server() -> Iterator[str]:
    python = python_with("mlflow", "mlflow")
    with tempfile.TemporaryDirectory() as directory:
        log = (Path(directory) / "log").open("wb")
        stores = ("--backend-store-uri", f"sqlite:///{directory}/mlflow.db")
        server = subprocess.Popen(
            [str(python.with_name("mlflow")), *MLFLOW_SERVER, *stores],
            stdout=log,
            stderr=log,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1"},
            start_new_session=True,
        )
        try:
            _wait("http://127.0.0.1:5077/health")
            yield "http://127.0.0.1:5077"
        finally:
            os.killpg(server.pid, 9)
            server.wait()


def _wait(url: str) -> None:
    import urllib.request

    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"{url} did not answer")


MLFLOW_CLIENT = """
import json, sys, threading, time
from mlflow import MlflowClient
from mlflow.entities import Metric
url, size, clients, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
done = [0] * clients
client = MlflowClient(url)
runs = [client.create_run("0").info.run_id for _ in range(clients)]
client.log_metric(runs[0], "warm", 1.0)
def send(n, until):
    step = 0
    while time.perf_counter() < until:
        now = int(time.time() * 1000)
        if size == 1:
            client.log_metric(runs[n], "m0", 1.0, step=step, timestamp=now)
        else:
            points = [Metric(f"m{i % 10}", 1.0, now, step + i // 10) for i in range(size)]
            client.log_batch(runs[n], metrics=points)
        step += size
        done[n] += size
start = time.perf_counter()
threads = [threading.Thread(target=send, args=(n, start + seconds)) for n in range(clients)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps(sum(done) / (time.perf_counter() - start)))
"""


def mlflow_rate(url: str, points: int, clients: int) -> float:
    """Points per second of MLflow's own client, as many at once as ours."""
    python = python_with("mlflow", "mlflow")
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    done = subprocess.run(
        [str(python), "-c", MLFLOW_CLIENT, url, str(points), str(clients), str(SECONDS)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    if done.returncode:
        sys.exit(f"the MLflow client failed: {done.stderr[-2000:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))
