"""Servers the tests start and stop, on loopback only."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

QUIET = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "NO_GCE_CHECK": "true",
    "GCE_METADATA_HOST": "127.0.0.1:9",
    "DO_NOT_TRACK": "1",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def serving(command: list[str], port: int, env: dict[str, str], ready_s: float = 60) -> Iterator[None]:
    """The command runs until the end of the block; it is ready when its port answers."""
    with tempfile.TemporaryDirectory(prefix="anygpu-emulator-") as home:
        log = Path(home) / "log"
        everything = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, **QUIET, **env}
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=home, env=everything, stdout=output, stderr=output)
        try:
            _wait(process, port, log, ready_s)
            yield
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, log: Path, ready_s: float) -> None:
    deadline = time.monotonic() + ready_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text(errors='replace')[-4000:]}")
