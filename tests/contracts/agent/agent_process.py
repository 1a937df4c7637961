"""A real agent process in a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.contracts.agent.fake_server import FakeServer

import anygpu.agent

AGENT = Path(anygpu.agent.__file__).parent / "__main__.py"


class Agent:
    """An agent in a directory of its own, against a PlayingServer."""

    def __init__(self, server: FakeServer, directory: Path) -> None:
        self.server = server
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        ticket = directory / "ticket.json"
        ticket.write_text(json.dumps(server.ticket()))
        ticket.chmod(0o600)
        self.process: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str, **env: str) -> subprocess.Popen[bytes]:
        command = [*self.command(), *options, str(self.directory)]
        surroundings = {**os.environ, "HOME": str(self.directory.parent), **env}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=surroundings)
        self._started.append(self.process)
        return self.process

    def command(self) -> list[str]:
        return [sys.executable, "-I", "-S", str(AGENT)]

    def finish(self, timeout_s: float = 90.0) -> int:
        assert self.process is not None
        _, errors = self.process.communicate(timeout=timeout_s)
        assert b"Traceback" not in errors, errors.decode()
        return self.process.returncode

    def run(self, *options: str, **env: str) -> int:
        self.start(*options, **env)
        return self.finish()

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
