"""Start a real server for a measurement, call it, and describe one measured figure."""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the results. `clients` is the number of concurrent clients on each side."""

    what: str
    ours: str
    against: str = ""
    ratio: str = ""
    clients: str = "1"
    target: str
    met: bool
    failed: bool = False  # the section ended with an error
    how: str = ""


@dataclass
class BenchServer:
    """A running anygpu server and how to reach it."""

    state: Path
    port: int
    agent_port: int
    pid: int
    ready_s: float
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        with contextlib.closing(self.connect()) as connection:
            data = json.dumps(body) if body is not None else None
            connection.request(method, path, body=data, headers=self.headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
            return json.loads(text)

    def rss_mb(self) -> float:
        return self._memory_mb("VmRSS")

    def peak_mb(self) -> float:
        return self._memory_mb("VmHWM")

    def cpu_s(self) -> float:
        """CPU time used so far by all threads of the server."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _memory_mb(self, name: str) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"no {name}")


@contextlib.contextmanager
def start_server(directory: Path, **settings: str) -> Iterator[BenchServer]:
    """Run a server on free ports until the block ends."""
    state = directory / "state"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").touch()
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("ANYGPU_")},
        "ANYGPU_STATE": str(state),
        "ANYGPU_CONFIG": str(directory / "config.toml"),
        "ANYGPU_SERVER__PORT": "0",
        "ANYGPU_LIMITS__REQUESTS_PER_S": "0",
        **settings,
    }
    started = time.perf_counter()
    log = (directory / "server.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "anygpu.server"], env=env, stdout=subprocess.PIPE, stderr=log
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        ready_s = time.perf_counter() - started
        ready = json.loads(line)
        yield BenchServer(
            state=state,
            port=int(ready["url"].rsplit(":", 1)[1]),
            agent_port=int(ready["agent_url"].rsplit(":", 1)[1]),
            pid=process.pid,
            ready_s=ready_s,
            token=(state / "token").read_text().strip(),
        )
    finally:
        stop_process(process, within_s=20)


def stop_process(process: "subprocess.Popen[bytes]", within_s: float) -> None:
    """Terminate the process; kill it when it does not end in time."""
    process.terminate()
    try:
        process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def median_ms(samples: Sequence[float]) -> float:
    return statistics.median(samples) * 1000


def quantile_ms(samples: Sequence[float], q: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, round(q * (len(ordered) - 1)))] * 1000
