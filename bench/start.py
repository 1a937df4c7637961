"""From asking to the script's first line: the server against a bare interpreter, the command against Ray's."""

import base64
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.peers import python_with
from bench.stage import Figure, Stage, median_ms

SCRIPT = 'print("first line", flush=True)\n'
ROUNDS = 15


def measure(stage: Stage) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "hello.py"
        script.write_text(SCRIPT)
        return [_post_to_first_line(stage, script), _run_against_ray(stage, script), _help()]


def _post_to_first_line(stage: Stage, script: Path) -> Figure:
    bare, ours = [], []
    _submit_and_wait(stage)
    for _ in range(ROUNDS):
        bare.append(_first_line([sys.executable, str(script)]))
        ours.append(_submit_and_wait(stage))
    over = median_ms(ours) - median_ms(bare)
    return Figure(
        what="POST to the script's first line at the client",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"bare python {median_ms(bare):.0f} ms",
        ratio=f"+{over:.0f} ms",
        target="at most +100 ms",
        met=over <= 100,
        how=f"median of {ROUNDS}, interleaved; NDJSON stream",
    )


def _submit_and_wait(stage: Stage) -> float:
    started = time.perf_counter()
    with contextlib.closing(stage.connect()) as connection:
        body = json.dumps({"code": SCRIPT, "python": sys.executable})
        connection.request("POST", "/api/v1/training", body=body, headers=stage.headers)
        job = json.loads(connection.getresponse().read())["id"]
        path = f"/api/v1/training/{job}/stream?include=events,logs"
        connection.request("GET", path, headers=stage.headers)
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


def _first_line(command: list[str], env: dict[str, str] | None = None, mark: bytes = b"first line") -> float:
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env) as process:
        assert process.stdout
        for line in process.stdout:
            if mark in line:
                took = time.perf_counter() - started
                process.stdout.read()
                return took
    raise RuntimeError(f"{command} never printed its line")


def _run_against_ray(stage: Stage, script: Path) -> Figure:
    anygpu = str(Path(sys.executable).with_name("anygpu"))
    env = {
        **os.environ,
        "ANYGPU_URL": stage.url,
        "ANYGPU_TOKEN": stage.token,
        "ANYGPU_STATE": str(stage.state),
    }
    command = [anygpu, "run", str(script)]
    ours = [_first_line(command, env) for _ in range(7)]
    with _ray() as (submit, address):
        ray = [_first_line([*submit, "--", sys.executable, str(script)], address) for _ in range(5)]
    ratio = median_ms(ours) / median_ms(ray)
    return Figure(
        what="`anygpu run` to the first line",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"`ray job submit` {median_ms(ray):.0f} ms",
        ratio=f"1/{1 / ratio:.1f}",
        target="at most 1/8",
        met=ratio <= 1 / 8,
        how="medians of 7 and 5; both servers already running",
    )


@contextlib.contextmanager
def _ray():  # type: ignore[no-untyped-def]
    """A Ray head on this machine, ended by its process group."""
    python = python_with("ray", "ray[default]")
    ray = str(python.with_name("ray"))
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
    head = subprocess.Popen(
        [ray, "start", "--head", "--block", "--port=6399", "--dashboard-host=127.0.0.1", "--num-cpus=2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    env["RAY_ADDRESS"] = "http://127.0.0.1:8265"
    try:
        _wait_for_dashboard()
        yield [ray, "job", "submit"], env
    finally:
        os.killpg(head.pid, 9)
        head.wait()


def _wait_for_dashboard() -> None:
    import urllib.request

    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            urllib.request.urlopen("http://127.0.0.1:8265/api/version", timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("ray's dashboard did not start")


def _help() -> Figure:
    anygpu = str(Path(sys.executable).with_name("anygpu"))
    bare = [_time([sys.executable, "-c", "pass"]) for _ in range(15)]
    ours = [_time([anygpu, "--help"]) for _ in range(15)]
    ratio = median_ms(ours) / median_ms(bare)
    return Figure(
        what="`anygpu --help`",
        ours=f"{median_ms(ours):.0f} ms",
        against=f"bare interpreter {median_ms(bare):.0f} ms",
        ratio=f"{ratio:.1f}x",
        target="at most 10x",
        met=ratio <= 10,
        how="medians of 15",
    )


def _time(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started
