"""Measure how fast things start: a job's first line, `anygpu run` against Ray, `--help`, and the server itself."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.clusters.ray import running_ray

from bench.server import BenchServer, Figure, median_ms, start_server, stop_process

SCRIPT = 'print("first line", flush=True)\n'
ROUNDS = 15
LARGE_BYTES, LARGE_FILES = 2_000_000_000, 200


def measure(server: BenchServer, *, quick: bool = False) -> list[Figure]:
    rounds = 2 if quick else ROUNDS
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "hello" / "hello.py"
        script.parent.mkdir()
        script.write_text(SCRIPT)
        return [
            _post_to_first_line(server, script, rounds),
            _large_directory(server, Path(directory), rounds),
            *([] if quick else _run_against_ray(server, script)),
            _help(rounds),
            _server_ready(Path(directory), rounds=1 if quick else 7),
        ]


def _post_to_first_line(server: BenchServer, script: Path, rounds: int) -> Figure:
    bare, ours = [], []
    submit_and_wait(server)
    for _ in range(rounds):
        bare.append(_first_line([sys.executable, str(script)]))
        ours.append(submit_and_wait(server))
    over = median_ms(ours) - median_ms(bare)
    return Figure(
        what="submit a job over HTTP until its first output line arrives",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"plain python {median_ms(bare):.0f} ms",
        ratio=f"+{over:.0f} ms",
        target="at most +100 ms",
        met=over <= 100,
        how=f"median of {rounds}; anygpu and python measured in turn",
    )


def submit_and_wait(server: BenchServer, **spec: Any) -> float:
    """Submit a job and return the seconds until its first output line arrives."""
    started = time.perf_counter()
    with contextlib.closing(server.connect()) as connection:
        body = json.dumps({"code": SCRIPT, "python": sys.executable, **spec})
        connection.request("POST", "/api/v1/training", body=body, headers=server.headers)
        job = json.loads(connection.getresponse().read())["id"]
        path = f"/api/v1/training/{job}/stream?include=events,logs"
        connection.request("GET", path, headers=server.headers)
        took = 0.0
        for line in connection.getresponse():
            message = json.loads(line)
            if message["kind"] == "log" and b"first line" in base64.b64decode(message["data"]):
                took = took or time.perf_counter() - started
            if message["kind"] == "end":
                break
    if not took:
        raise RuntimeError(f"job {job} ended without its first line")
    return took


def _first_line(
    command: list[str],
    env: dict[str, str] | None = None,
    mark: bytes = b"first line",
    cwd: Path | None = None,
) -> float:
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=cwd
    ) as process:
        assert process.stdout
        for line in process.stdout:
            if mark in line:
                took = time.perf_counter() - started
                process.stdout.read()
                return took
    raise RuntimeError(f"{command} never printed its line")


def _in_place_env(server: BenchServer) -> dict[str, str]:
    """Return an environment in which the server is the one on this computer, so jobs run in place."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("ANYGPU_")}
    config = server.state / "no-config" / "config.toml"
    return {**env, "ANYGPU_STATE": str(server.state), "ANYGPU_CONFIG": str(config)}


def _large_directory(server: BenchServer, directory: Path, rounds: int) -> Figure:
    """Compare `anygpu run` in a directory of 2 GB and in an empty one."""
    empty, large = directory / "empty", directory / "large"
    for each in (empty, large):
        each.mkdir()
        (each / "hello.py").write_text(SCRIPT)
    for number in range(LARGE_FILES):
        with (large / f"{number}.bin").open("wb") as file:
            file.truncate(LARGE_BYTES // LARGE_FILES)
    command, env = [_anygpu(), "run", "hello.py"], _in_place_env(server)
    times: dict[Path, list[float]] = {empty: [], large: []}
    for _ in range(rounds + 1):
        for each in (empty, large):
            times[each].append(_first_line(command, env, cwd=each))
    ratio = median_ms(times[large][1:]) / median_ms(times[empty][1:])
    return Figure(
        what="`anygpu run` in a directory of 2 GB",
        ours=f"{median_ms(times[large][1:]):.0f} ms",
        against=f"in an empty one {median_ms(times[empty][1:]):.0f} ms",
        ratio=f"{ratio:.2f}x",
        target="at most 1.2x",
        met=ratio <= 1.2,
        how=f"medians of {rounds}, measured in turn; {LARGE_FILES} sparse files; until the first output line",
    )


def _run_against_ray(server: BenchServer, script: Path) -> list[Figure]:
    by_url = {
        **os.environ,
        "ANYGPU_URL": server.url,
        "ANYGPU_TOKEN": server.token,
        "ANYGPU_STATE": str(server.state),
    }
    command = [_anygpu(), "run", str(script)]
    copied = [_first_line(command, by_url) for _ in range(7)]
    in_place = [_first_line(command, _in_place_env(server), cwd=script.parent) for _ in range(7)]
    with running_ray() as cluster:
        address = {**os.environ, "RAY_ADDRESS": cluster.address}
        submit = [str(cluster.program), "job", "submit", "--", sys.executable, str(script)]
        ray = [_first_line(submit, address) for _ in range(5)]
    return [
        _against_ray("`anygpu run` in place, to the first line", in_place, ray, 15),
        _against_ray("`anygpu run` in a copy, to the first line", copied, ray, 8),
    ]


def _against_ray(what: str, ours: list[float], ray: list[float], target: int) -> Figure:
    ratio = median_ms(ours) / median_ms(ray)
    return Figure(
        what=what,
        ours=f"{median_ms(ours):.0f} ms",
        against=f"`ray job submit` {median_ms(ray):.0f} ms",
        ratio=f"1/{1 / ratio:.1f}",
        target=f"at most 1/{target}",
        met=ratio <= 1 / target,
        how="medians of 7 and 5 runs; both servers already run",
    )


def _anygpu() -> str:
    return str(Path(sys.executable).with_name("anygpu"))


def _help(rounds: int) -> Figure:
    anygpu = str(Path(sys.executable).with_name("anygpu"))
    bare = [_time([sys.executable, "-c", "pass"]) for _ in range(rounds)]
    ours = [_time([anygpu, "--help"]) for _ in range(rounds)]
    ratio = median_ms(ours) / median_ms(bare)
    return Figure(
        what="`anygpu --help`",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"plain python {median_ms(bare):.0f} ms",
        ratio=f"{ratio:.1f}x",
        target="at most 10x",
        met=ratio <= 10,
        how=f"medians of {rounds}",
    )


# The least a server of this kind loads: the same framework, database layer and HTTP server, one table and one route.
HELLO_WORLD = """
import asyncio, sys
import fastapi, sqlalchemy, uvicorn
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

engine = create_engine("sqlite:///" + sys.argv[1])
metadata = MetaData()
Table("hello", metadata, Column("id", Integer, primary_key=True))
metadata.create_all(engine)
app = fastapi.FastAPI()

@app.get("/")
def hello() -> dict[str, str]:
    return {"hello": "world"}

class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("ready", flush=True)

asyncio.run(Server(uvicorn.Config(app, port=0, log_level="warning")).serve())
"""


def _server_ready(directory: Path, rounds: int) -> Figure:
    """Time from exec to ready, with an existing database on both sides."""
    ours, hello = [], []
    for _ in range(rounds + 1):
        with start_server(directory / "ready") as server:
            ours.append(server.ready_s)
        hello.append(_hello_world_ready(directory / "hello.db"))
    del ours[0], hello[0]  # the first start creates the database
    ratio = median_ms(ours) / median_ms(hello)
    return Figure(
        what="start the server until it accepts requests",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"FastAPI + SQLAlchemy + uvicorn hello-world {median_ms(hello):.0f} ms",
        ratio=f"{ratio:.2f}x",
        clients="0",
        target="at most 1.7x",
        met=ratio <= 1.7,
        how=f"medians of {rounds}, measured in turn",
    )


def _hello_world_ready(database: Path) -> float:
    started = time.perf_counter()
    command = [sys.executable, "-c", HELLO_WORLD, str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("the hello-world server did not start")
        return time.perf_counter() - started
    finally:
        stop_process(process, within_s=20)


def _time(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started
