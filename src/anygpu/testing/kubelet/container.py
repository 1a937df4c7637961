"""Run the command of a container as a process, in a mount and process namespace of its own.

The file system of the machine stands in for the image, and the interpreter that runs the kubelet is its `python3`.
Volumes are directories of the kubelet that are mounted into the namespace. A mount path must exist on the machine or be
beneath /mnt, which is an empty file system in the namespace. The home directory is there too: like that of a new
container, it has no files that earlier containers have cached. Needs root.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SCRATCH = "/mnt"
HOME = f"{SCRATCH}/home"
NAMESPACE = (
    "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
)  # fmt: skip
TERMINATION_MESSAGE_BYTES = 2048


class CannotCreateContainer(Exception):
    """The container cannot be started, for a reason that a real kubelet would call CreateContainerError."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory of the kubelet, and the path at which the container sees it."""

    source: Path
    path: str
    read_only: bool = False


class ContainerProcess:
    """The process of a container, with its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        mounts: Sequence[Mount],
        log: Path,
        cwd: str = "/",
    ) -> None:
        self._log = log
        script = "; ".join([*_mount_commands(mounts), f"cd {shlex.quote(cwd)}", 'exec "$@"'])
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [*NAMESPACE, "/bin/sh", "-ec", script, "container", *command],
                env={"PATH": _search_path(), "HOME": HOME, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Wait for the end of the container, and return its exit code as Kubernetes reports it."""
        code = self._process.wait()
        return code if code >= 0 else 128 - code

    def wait_for(self, seconds: float) -> bool:
        """Return whether the container has ended within this time."""
        try:
            self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self) -> None:
        """Send SIGTERM to the first process of the container."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        try:
            first = children.read_text().split()
            for pid in first[:1]:
                os.kill(int(pid), signal.SIGTERM)
        except OSError:
            return  # it has ended

    def kill(self) -> None:
        """Kill all processes of the container: they end with the first one of their namespace."""
        self._process.kill()

    def log_tail(self) -> str:
        return self._log.read_bytes()[-TERMINATION_MESSAGE_BYTES:].decode("utf-8", "replace")


def _search_path() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def _mount_commands(mounts: Sequence[Mount]) -> list[str]:
    commands = [f"mount -t tmpfs scratch {SCRATCH}", f"mkdir {HOME}"]
    for mount in mounts:
        path = shlex.quote(mount.path)
        if mount.path.startswith(f"{SCRATCH}/"):
            commands.append(f"mkdir -p {path}")
        elif not Path(mount.path).is_dir():
            raise CannotCreateContainer(
                f"the mount path {mount.path} neither exists on this machine nor is beneath {SCRATCH}"
            )
        commands.append(f"mount --bind {shlex.quote(str(mount.source))} {path}")
        if mount.read_only:
            commands.append(f"mount -o remount,bind,ro {path}")
    return commands
