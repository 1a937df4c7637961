"""A person who has just installed anygpu: a home of their own, a project directory, and a cloud account."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.acceptance.cli.conftest import Shell
from tests.acceptance.first_hour.environments import create_environments
from tests.acceptance.machines.cloud import Cloud, free_port

NO_GPU = "#!/bin/sh\necho 'No devices were found'\nexit 9\n"
CPUS = 2


@dataclass(frozen=True)
class Newcomer:
    """Types commands in `shell` and can look at the books of the cloud where an account exists."""

    shell: Shell
    cloud: Cloud
    tool: Path
    user: Path

    def at(self, name: str) -> "Newcomer":
        """The same person in another, empty directory."""
        directory = self.shell.directory / name
        directory.mkdir()
        return replace(self, shell=replace(self.shell, directory=directory))

    @property
    def project(self) -> Path:
        return self.shell.directory

    @property
    def state(self) -> Path:
        return Path(self.shell.environ["ANYGPU_STATE"])

    def said(self, *words: str, code: int = 0) -> str:
        """What a command without a terminal prints."""
        done = self.shell(*words, code=code)
        return (done.stdout + done.stderr).decode()

    def jobs(self) -> list[str]:
        return [job["id"] for job in self.shell.json("ls", "--all")["jobs"]]

    def show(self, job: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.shell.json("show", job)
        return shown

    def wait(self, job: str, holds: Callable[[dict[str, Any]], bool], within_s: float = 60) -> dict[str, Any]:
        end = time.monotonic() + within_s
        while not holds(shown := self.show(job)):
            assert time.monotonic() < end, shown
            time.sleep(0.1)
        return shown

    def bills(self) -> list[dict[str, Any]]:
        """Every machine that was ever rented."""
        return list(self.cloud.ask("books"))

    def rented(self) -> list[str]:
        return [bill["id"] for bill in self.bills()]

    def wait_until_no_process_runs(self, within_s: float = 30) -> None:
        end = time.monotonic() + within_s
        while left := dict(_processes_below(self.tool.parent)):
            assert time.monotonic() < end, left
            time.sleep(0.1)


def _processes_below(place: Path) -> Iterator[tuple[int, str]]:
    """Processes whose command or environment names a path in `place`."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdigit():
                continue
            command, environ = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            if bytes(place) in command + environ:
                yield int(entry.name), command.replace(b"\0", b" ").decode()


@contextlib.contextmanager
def open_first_hour(place: Path) -> Iterator[Newcomer]:
    tool, user = create_environments(place)
    cloud = Cloud(place, "--boot", "0.5s", "--ssh-port", str(free_port()))
    try:
        environ = _environ(place, tool, user)
        shell = Shell(place / "project", environ, command=str(tool / "bin" / "anygpu"))
        newcomer = Newcomer(shell, cloud, tool, user)
        newcomer.project.mkdir()
        config = Path(newcomer.shell.environ["ANYGPU_CONFIG"])
        config.write_text(cloud.settings(**{"lambda": {"regions": ["us-east-1"], "unattended": True}}))
        try:
            yield newcomer
        finally:
            newcomer.shell("down", code=None)
    finally:
        cloud.stop()


def _environ(place: Path, tool: Path, user: Path) -> dict[str, str]:
    """The environment of a shell in which the user's environment is active and the tool is on the PATH."""
    home = place / "home"
    programs = home / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "anygpu").symlink_to(tool / "bin" / "anygpu")
    (programs / "nvidia-smi").write_text(NO_GPU)
    (programs / "nvidia-smi").chmod(0o755)
    (home / ".config").mkdir()
    return {
        "HOME": str(home),
        "PATH": ":".join([str(user / "bin"), str(programs), "/usr/local/bin", "/usr/bin", "/bin"]),
        "VIRTUAL_ENV": str(user),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "ANYGPU_STATE": str(home / "state"),
        "ANYGPU_CONFIG": str(home / ".config" / "anygpu.toml"),
        "ANYGPU_SERVER__PORT": "0",
        "ANYGPU_LOCAL__CPUS": str(CPUS),
        "ANYGPU_AGENT__CANCEL_GRACE_S": "1",
        "COLUMNS": "160",
    }
