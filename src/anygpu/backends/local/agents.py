"""Agent processes on this machine: start an agent before a job needs it, and notice when an agent exits."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anygpu.agent
from anygpu.agent.host.processes import PLACEHOLDER_NAME
from anygpu.agent.prepare.installers import installer_variables

AGENT = Path(anygpu.agent.__file__).with_name("__main__.py")
PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH")
PASSED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "XDG_")

StartProcess = Callable[[socket.socket], "subprocess.Popen[bytes]"]


class PrewarmedAgent:
    """An agent process that waits at a socket for its attempt. The process exits when the socket is closed."""

    def __init__(self, start: StartProcess) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self.process = start(theirs)

    @property
    def is_waiting(self) -> bool:
        return self.process.poll() is None

    def assign(self, name: str, directory: Path, env: Mapping[str, str], fds: Sequence[int]) -> bool:
        """Give the prewarmed agent its attempt. Return False if the agent has died.

        The first descriptor of `fds` becomes the agent's output; the others are the locks on its GPUs and
        CPUs.
        """
        order = {"name": name, "directory": str(directory), "env": dict(env)}
        with self._ours:
            try:
                socket.send_fds(self._ours, [json.dumps(order).encode()], [*fds])
            except OSError:
                return False
            return self.is_waiting

    def close(self) -> None:
        self._ours.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)


class PrewarmedPool:
    """Holds at most one prewarmed agent, because each takes about ten megabytes of memory."""

    def __init__(self, start: StartProcess) -> None:
        self._start = start
        self._agent: PrewarmedAgent | None = None

    def prepare(self) -> None:
        prewarmed = self.take()
        if prewarmed is not None:
            self._agent = prewarmed
            return
        with contextlib.suppress(OSError):
            self._agent = PrewarmedAgent(self._start)

    def take(self) -> PrewarmedAgent | None:
        prewarmed, self._agent = self._agent, None
        if prewarmed is not None and not prewarmed.is_waiting:
            prewarmed.close()
            return None
        return prewarmed

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()
            self._agent = None


def agent_environment() -> dict[str, str]:
    """Return the environment for agents, without the secrets of this process, because jobs can read it."""
    passed = {k: v for k, v in os.environ.items() if k in PASSED_VARIABLES or k.startswith(PASSED_PREFIXES)}
    return passed | installer_variables(os.environ)


def placeholder_env() -> dict[str, str]:
    return {"ANYGPU_NAME": PLACEHOLDER_NAME}


class ExitWatcher:
    """Calls `on_exit` with the name of an attempt as soon as its agent exits.

    Uses pidfds, which only Linux has, and also watches agents that an earlier server process started. On
    other systems the periodic probe notices that an agent has exited.
    """

    def __init__(self, on_exit: Callable[[str], None]) -> None:
        self._on_exit = on_exit
        self._pidfds: dict[str, int] = {}

    def watch(self, name: str, directory: Path) -> None:
        if name in self._pidfds or not hasattr(os, "pidfd_open"):
            return
        try:
            pid = json.loads((directory / "agent.json").read_text())["pid"]
            fd = os.pidfd_open(pid)
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._pidfds[name] = fd
        asyncio.get_running_loop().add_reader(fd, self._handle_exit, name)

    def close(self) -> None:
        for name in [*self._pidfds]:
            self._unwatch(name)

    def _handle_exit(self, name: str) -> None:
        self._unwatch(name)
        self._on_exit(name)

    def _unwatch(self, name: str) -> None:
        fd = self._pidfds.pop(name)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
