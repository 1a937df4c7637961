"""Measure relays: how long a line of output takes to the client, and a cancel to the job. Also without a relay."""

import base64
import contextlib
import json
import logging
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.server import BenchServer, Figure, median_ms, start_server

# No pause is a multiple of an interval in which somebody looks for messages. After the long ones, no message has come
# for a while, so that the server looks less often.
PAUSES_S = [0.37] * 12 + [3.13] * 3
PRINTING = """
import time
for pause_s in {pauses_s}:
    print(f"at {{time.time()}}", flush=True)
    time.sleep(pause_s)
print("done", flush=True)
time.sleep(600)
"""
BUCKET = "bench"
RELAYS = {"directory": "a relay in a directory", "storage": "a relay in a bucket"}
TARGETS_MS = {"directory": 2000, "storage": 4000}


@dataclass(frozen=True, kw_only=True)
class Delays:
    """How long lines took to reach the client, and how long the job took to end after it was cancelled."""

    lines_s: list[float]
    cancel_s: float


def measure(*, quick: bool = False) -> list[Figure]:
    pauses_s = PAUSES_S[-2:] if quick else PAUSES_S
    with tempfile.TemporaryDirectory() as folder, _serving_bucket() as endpoint:
        ways = _settings(Path(folder), endpoint)
        with ThreadPoolExecutor(len(ways)) as threads:
            found = {
                name: threads.submit(_measure, Path(folder) / name, pauses_s, settings)
                for name, settings in ways.items()
            }
            delays = {name: each.result() for name, each in found.items()}
    direct = delays.pop("direct")
    return [
        *(_line_figure(name, delays[name], direct) for name in RELAYS),
        *(_cancel_figure(name, delays[name], direct) for name in RELAYS),
    ]


def _line_figure(name: str, delays: Delays, direct: Delays) -> Figure:
    limit_ms, longest_ms = TARGETS_MS[name], max(delays.lines_s) * 1000
    return Figure(
        what=f"from a printed line to the client, through {RELAYS[name]}",
        ours=f"p50 {median_ms(delays.lines_s):.0f} ms, longest {longest_ms:.0f} ms",
        against=f"direct: p50 {median_ms(direct.lines_s):.0f} ms, longest {max(direct.lines_s) * 1000:.0f} ms",
        target=f"longest under {limit_ms / 1000:g} s",
        met=longest_ms < limit_ms,
        how=f"{len(delays.lines_s)} lines, {PAUSES_S[0]} s and {PAUSES_S[-1]} s apart; default `relay.poll_s` (1 s)",
    )


def _cancel_figure(name: str, delays: Delays, direct: Delays) -> Figure:
    limit_ms, took_ms = TARGETS_MS[name], delays.cancel_s * 1000
    return Figure(
        what=f"from a cancel to the end of the job, through {RELAYS[name]}",
        ours=f"{took_ms:.0f} ms",
        against=f"direct: {direct.cancel_s * 1000:.0f} ms",
        target=f"under {2 * limit_ms / 1000:g} s",
        met=took_ms < 2 * limit_ms,
        how="one job, which ends at once on SIGTERM",
    )


def _settings(folder: Path, endpoint: str) -> dict[str, dict[str, str]]:
    """Return the settings of the three servers."""
    options = [
        f"endpoint={endpoint}",
        "region=us-east-1",
        "access_key_id=bench",
        "secret_access_key=bench",
        "client.allow_http=true",
    ]
    bucket = {"ANYGPU_STORE__BLOBS": f"s3://{BUCKET}/files", "ANYGPU_STORE__BLOB_OPTIONS": ",".join(options)}
    return {
        "direct": {},
        "directory": {
            "ANYGPU_RELAY__DIRECTORY": str(folder / "mailboxes"),
            "ANYGPU_LOCAL__RELAY": "directory",
        },
        "storage": {**bucket, "ANYGPU_LOCAL__RELAY": "storage"},
    }


def _measure(folder: Path, pauses_s: list[float], settings: dict[str, str]) -> Delays:
    with start_server(folder, **settings) as server:
        spec = {"code": PRINTING.format(pauses_s=pauses_s), "python": sys.executable}
        job = server.call("POST", "/api/v1/training", spec)["id"]
        return _follow(server, job)


def _follow(server: BenchServer, job: str) -> Delays:
    """Follow a job, and cancel it when it has printed its lines."""
    rest, lines_s, cancelled_at = b"", list[float](), 0.0
    with contextlib.closing(server.connect()) as connection:
        path = f"/api/v1/training/{job}/stream?include=events,logs"
        connection.request("GET", path, headers=server.headers)
        for message in map(json.loads, connection.getresponse()):
            now = time.time()
            if message["kind"] == "log":
                *whole, rest = (rest + base64.b64decode(message["data"])).split(b"\n")
                lines_s += [now - float(line[3:]) for line in whole if line.startswith(b"at ")]
                if b"done" in whole:
                    cancelled_at = time.time()
                    server.call("POST", f"/api/v1/training/{job}/cancel")
            if message["kind"] == "end":
                break
    if not cancelled_at:
        raise RuntimeError(f"job {job} ended before it had printed its lines")
    return Delays(lines_s=lines_s, cancel_s=time.time() - cancelled_at)


@contextlib.contextmanager
def _serving_bucket() -> Iterator[str]:
    """Serve S3 with one bucket on this machine. Return its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        request = urllib.request.Request(f"http://{host}:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request, timeout=60).close()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
