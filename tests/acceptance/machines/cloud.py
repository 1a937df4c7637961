"""The simulated cloud as a process, and a server that rents there and can be killed."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

PORT_IN_USE = "The server cannot listen on"
EMBEDDED = {"ANYGPU_LOCAL__ENABLED": "false", "ANYGPU_LIMITS__REQUESTS_PER_S": "0"}


class Cloud:
    """`anygpu cloud-sim`, ended by `stop` with everything it rents."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-c", "from anygpu.cli.main import main; main()", "cloud-sim", "--json"]
        self._log = (folder / "cloud.log").open("wb")
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=self._log)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (folder / "cloud.log").read_text()
        self.about: dict[str, Any] = json.loads(line)

    def ask(self, what: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.about['control']}/{what}", data=data)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def running(self) -> list[dict[str, Any]]:
        return [each for each in self.ask("instances") if each["state"] == "running"]

    def fault(self, kind: str, **where: Any) -> str:
        return str(self.ask("faults", {"kind": kind, **where})["id"])

    def lift(self, fault: str = "") -> None:
        """Without one: all."""
        where = "/".join(part for part in (self.about["control"], "faults", fault) if part)
        request = urllib.request.Request(where, method="DELETE")
        urllib.request.urlopen(request, timeout=20).close()

    def of(self, job_id: str) -> list[dict[str, Any]]:
        """What the books say of a job's machines."""
        mark = job_id.replace("-", "")
        return [entry for entry in self.ask("books") if mark in entry["name"]]

    def settings(self, **options: Mapping[str, Any]) -> str:
        """One table for each name, which is its vendor's unless `kind` says so, with the options given."""
        return "\n".join(self._table(name, given) for name, given in options.items())

    def _table(self, name: str, given: Mapping[str, Any]) -> str:
        vendor = str(given.get("kind", name))
        key, secret = self.about["credentials"][vendor]
        credentials = {"access_key_id": key, "secret_access_key": secret} if secret else {"api_key": key}
        endpoint = self.about["endpoints"][vendor]
        every = {
            "kind": vendor,
            "endpoint": endpoint,
            "ssh_port": self.about["ssh_port"],
            **credentials,
            **given,
        }
        lines = [f"{option} = {json.dumps(value)}" for option, value in every.items()]
        return "\n".join([f"[backends.{name}]", *lines, ""])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


class Server:
    """A real server on fixed ports: killed and started again, it is the same one."""

    def __init__(self, folder: Path, settings: str, **environment: str) -> None:
        self.folder, self.port = folder, free_port()
        self.state = folder / "state"
        (folder / "config.toml").write_text(settings)
        self._environ = {
            **os.environ,
            **EMBEDDED,
            "ANYGPU_STATE": str(self.state),
            "ANYGPU_CONFIG": str(folder / "config.toml"),
            "ANYGPU_SERVER__PORT": str(self.port),
            **environment,
        }
        self.start()

    def start(self) -> None:
        """Start the server. Another test may have its port for a moment, as it was free."""
        end = time.monotonic() + 90
        while not self._has_started(end):
            assert PORT_IN_USE in self.log()[-400:], self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.5)

    def _has_started(self, end: float) -> bool:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "anygpu.server"], env=self._environ, stdout=log, stderr=log
            )
        while self.process.poll() is None:
            assert time.monotonic() < end, self.log()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=1).close()
                return True
            except OSError:
                time.sleep(0.05)
        return False

    def log(self) -> str:
        return (self.folder / "server.log").read_text()[-4000:]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        token = (self.state / "token").read_text().strip()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def anygpu(self, *words: str, code: int | None = 0, cwd: Path | None = None) -> str:
        """What a person who types `anygpu …` reads."""
        program = "from anygpu.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            env=self._environ | {"COLUMNS": "400"},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert code is None or done.returncode == code, (
            f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout + done.stderr

    def submit(self, **spec: Any) -> str:
        return str(self.ask("POST", "training", spec)["id"])

    def fetch_json(self, job_id: str, name: str) -> Any:
        """The content of an output file of a job."""
        target = self.folder / "fetched" / job_id
        self.anygpu("fetch", job_id, name, "--to", str(target))
        return json.loads((target / name).read_text())

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", f"training/{job_id}")
        return found

    def events(self, job_id: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"training/{job_id}/events?limit=1000")["events"])

    def wait(self, job_id: str, *statuses: str, within_s: float = 90) -> dict[str, Any]:
        end = time.monotonic() + within_s
        while (job := self.job(job_id))["status"] not in statuses:
            assert time.monotonic() < end, f"{job}\n{self.log()}"
            time.sleep(0.1)
        return job

    def until(
        self, job_id: str, holds: Callable[[dict[str, Any]], bool], within_s: float = 90
    ) -> dict[str, Any]:
        end = time.monotonic() + within_s
        while not holds(job := self.job(job_id)):
            assert time.monotonic() < end, f"{job}\n{self.log()}"
            time.sleep(0.05)
        return job


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


BRISK = {
    "ANYGPU_CONTROL__SAFETY_NET_S": "0.5",
    "ANYGPU_CONTROL__LEADER_TTL_S": "2",
    "ANYGPU_CONTROL__STOP_ALLOWANCE_S": "10",
    "ANYGPU_AGENT__LEASE_S": "10",
    "ANYGPU_AGENT__CANCEL_GRACE_S": "2",
}


@contextlib.contextmanager
def at_ec2(folder: Path, *, ssh_port: int, **settings: str) -> Iterator[tuple[Cloud, Server]]:
    """A cloud whose machines boot in a second, and a server in a hurry that rents in one region of its EC2."""
    cloud = Cloud(folder, "--boot", "1s", "--ssh-port", str(ssh_port))
    try:
        server = Server(folder, cloud.settings(ec2={"regions": ["us-east-1"]}), **BRISK, **settings)
        try:
            yield cloud, server
        finally:
            server.stop()
    finally:
        cloud.stop()
