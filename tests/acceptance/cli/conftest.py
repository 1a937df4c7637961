"""The installed command against a real server, in directories of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

ANYGPU = Path(sys.executable).with_name("anygpu")
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Shell:
    """Runs `anygpu` as a person would, in `directory`."""

    directory: Path
    environ: dict[str, str] = field(default_factory=dict)
    command: str = str(ANYGPU)

    def __call__(
        self, *words: str, code: int | None = 0, stdin: bytes = b"", timeout: float = 200
    ) -> subprocess.CompletedProcess[bytes]:
        done = subprocess.run(
            [self.command, *words],
            cwd=self.directory,
            env=self.environ,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        said = f"anygpu {' '.join(words)} ended with {done.returncode}:\n"
        said += (done.stdout + done.stderr).decode(errors="replace")
        assert code is None or done.returncode == code, said
        assert b"Traceback" not in done.stderr, said
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        ours = ("run", "--json", *words[1:]) if words[0] == "run" else (*words, "--json")
        return json.loads(self(*ours, code=code).stdout)

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        # A suite started in the background ignores SIGINT, and its children would inherit that.
        more.setdefault("preexec_fn", _hear_ctrl_c)
        return subprocess.Popen(
            [self.command, *words], cwd=self.directory, env=self.environ, bufsize=0, **more
        )

    def write(self, name: str, *lines: str) -> str:
        (self.directory / name).write_text("\n".join(lines) + "\n")
        return name

    def server_pid(self) -> int:
        return int(json.loads((Path(self.environ["ANYGPU_STATE"]) / "server.json").read_text())["pid"])


def _hear_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def environment(place: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ANYGPU_", "VIRTUAL_ENV"))}
    return kept | {
        "HOME": str(place),
        "ANYGPU_STATE": str(place / "state"),
        "ANYGPU_CONFIG": str(place / "config" / "config.toml"),
        "ANYGPU_SERVER__PORT": "0",
        "ANYGPU_LOCAL__CPUS": "8",
        "ANYGPU_AGENT__CANCEL_GRACE_S": "1",
        "COLUMNS": "160",
    }


def stop(environ: dict[str, str], cancelling: Sequence[str] = ("queued", "running")) -> None:
    shell = Shell(Path(environ["HOME"]), environ)
    if not (Path(environ["ANYGPU_STATE"]) / "server.json").exists():
        return
    for status in cancelling:
        for job in shell.json("ls", "--all", "--status", status)["jobs"]:
            shell("cancel", "--wait", job["id"])
    shell("down")


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """One server for all tests that only need one."""
    environ = environment(tmp_path_factory.mktemp("cli"))
    Shell(Path(environ["HOME"]), environ)("up", "-d")
    yield environ
    stop(environ)


@pytest.fixture
def anygpu(served: dict[str, str], tmp_path: Path) -> Shell:
    (tmp_path / "project").mkdir()
    return Shell(tmp_path / "project", served)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Shell]:
    """A machine on which no server runs yet."""
    environ = environment(tmp_path)
    (tmp_path / "project").mkdir()
    yield Shell(tmp_path / "project", environ)
    stop(environ)


@pytest.fixture
async def lab(alone: Shell, tmp_path: Path) -> AsyncIterator[SshTestHost]:
    """A host of the user, added as `lab` to a server of its own."""
    async with open_ssh_host(BEST_SERVER, tmp_path / "box") as host:
        (tmp_path / "id").write_text(host.key.private_openssh)
        (tmp_path / "id").chmod(0o600)
        where = f"{host.user}@127.0.0.1:{host.port}"
        await asyncio.to_thread(
            alone, "host", "add", where, "--name", "lab", "-i", str(tmp_path / "id"), "-y"
        )
        yield host
