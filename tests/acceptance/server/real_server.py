"""A real server process, and plain HTTP to it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

READY_S = 60.0
PORT_IN_USE = "The server cannot listen on"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Server:
    """`python -m anygpu.server` in a state directory of its own."""

    def __init__(self, folder: Path, open_files: int | None = None, /, **environment: str) -> None:
        """Start the server. `open_files`: its limit of open files."""
        self.state = folder / "state"
        limit = ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh"]
        self._prefix = [] if open_files is None else limit
        self._environment = {**os.environ, "HOME": str(folder), **environment}
        self._error = folder / "server.err"
        self.start()

    def start(self, *options: str) -> None:
        """Start the server. A port that it had before may be taken by another test for a moment."""
        end = time.monotonic() + READY_S
        while not self._has_started(*options):
            is_taken = "--port" in options and PORT_IN_USE in self.error_log[-400:]
            assert is_taken, self.error_log
            assert time.monotonic() < end, self.error_log
            time.sleep(0.5)

    def _has_started(self, *options: str) -> bool:
        started = time.monotonic()
        command = [*self._prefix, sys.executable, "-m", "anygpu.server", "--state", str(self.state)]
        command += ["--port", "0", *options]
        with self._error.open("ab") as error:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=error, env=self._environment
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            return False
        self.ready_s = time.monotonic() - started
        self.address = json.loads(line)
        self.url: str = self.address["url"]
        self.agent_url: str = self.address["agent_url"]
        self.token = (self.state / "token").read_text().strip()
        return True

    @property
    def error_log(self) -> str:
        return self._error.read_text()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        base: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        parts = urlsplit(base or self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        shown = self.token if token == "" else token
        auth = {} if shown is None else {"Authorization": f"Bearer {shown}"}
        try:
            connection.request(method, path, data, {**auth, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def submit(self, **spec: Any) -> str:
        answer = self.ask("POST", "/api/v1/training", spec)
        assert answer.status == 201, answer.data
        return str(answer.json["id"])

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"/api/v1/training/{job_id}").json
        return found

    def wait(
        self, job_id: str, until: Callable[[dict[str, Any]], bool], timeout_s: float = 90
    ) -> dict[str, Any]:
        end = time.monotonic() + timeout_s
        while True:
            job = self.job(job_id)
            if until(job):
                return job
            assert time.monotonic() < end, f"{job}\n{self.error_log[-3000:]}"
            time.sleep(0.05)

    def wait_ended(self, job_id: str, timeout_s: float = 90) -> dict[str, Any]:
        return self.wait(job_id, lambda job: job["ended_at"] is not None, timeout_s)

    def new_token(self, **wanted: Any) -> str:
        answer = self.ask("POST", "/api/v1/tokens", wanted)
        assert answer.status == 201, answer.data
        return str(answer.json["token"])

    def stop(self, timeout_s: float = 60) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            if self.process.stdout:
                self.process.stdout.close()

    def cancel_everything(self) -> None:
        for job in self.ask("GET", "/api/v1/training?status=queued,running&limit=100").json["jobs"]:
            self.ask("POST", f"/api/v1/training/{job['id']}/cancel")
        for job in self.ask("GET", "/api/v1/training?status=queued,running&limit=100").json["jobs"]:
            self.wait_ended(job["id"])


def refused_start(state: Path, **environment: str) -> tuple[int, str]:
    """Start a server that must refuse to run. Return its exit code and what it wrote to standard error."""
    command = [sys.executable, "-m", "anygpu.server", "--state", str(state), "--port", "0"]
    variables = {**os.environ, "HOME": str(state.parent), **environment}
    done = subprocess.run(
        command, capture_output=True, text=True, env=variables, timeout=READY_S, check=False
    )
    assert not done.stdout, done.stdout
    return done.returncode, done.stderr
