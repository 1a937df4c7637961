"""A simulated cloud beside the measurement, and a server that rents there."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.server import BenchServer, start_server, stop_process

STUBS = ("-m", "bench.stub_machines")
REAL = ("-c", "from anygpu.cli.main import main; main()", "cloud-sim", "--json")


class Cloud:
    """The simulator's own API, and its books."""

    def __init__(self, process: "subprocess.Popen[bytes]", about: dict[str, Any]) -> None:
        self._process = process
        self._about = about

    def ask(self, what: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._about['control']}/{what}", data=data)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def tell(self, line: str) -> None:
        """To the stub machines, which do a thing to many at once."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def settings(self, **options: Any) -> str:
        key, secret = self._about["credentials"]["ec2"]
        every = {
            "kind": "ec2",
            "endpoint": self._about["endpoints"]["ec2"],
            "ssh_port": self._about["ssh_port"],
            "access_key_id": key,
            "secret_access_key": secret,
            **options,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in every.items()]
        return "\n".join(["[backends.ec2]", *lines, ""])


@contextlib.contextmanager
def rented(
    directory: Path, simulator: Sequence[str], *, paid_attempts: int, **options: Any
) -> Iterator[tuple[Cloud, BenchServer]]:
    """A simulator and a server whose one backend it is; both end with the block, whatever happens in it."""
    with _simulator(directory, simulator) as cloud:
        directory.joinpath("config.toml").write_text(cloud.settings(**options))
        settings = {"ANYGPU_LOCAL__ENABLED": "false", "ANYGPU_CONTROL__PAID_ATTEMPTS": str(paid_attempts)}
        with start_server(directory, **settings) as server:
            yield cloud, server


@contextlib.contextmanager
def _simulator(directory: Path, command: Sequence[str]) -> Iterator[Cloud]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "cloud.log").open("wb") as log:
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, *command], stdin=pipe, stdout=pipe, stderr=log)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError((directory / "cloud.log").read_text())
        yield Cloud(process, json.loads(line))
    finally:
        stop_process(process, within_s=60)
