"""Start one agent process ahead of time, so that a job does not wait for the interpreter to start."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from anygpu.agent.host.processes import PLACEHOLDER_NAME

StartProcess = Callable[[socket.socket], "subprocess.Popen[bytes]"]


class PrewarmedAgent:
    """An agent process that waits at a socket for its attempt. It exits when the socket is closed."""

    def __init__(self, start: StartProcess) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self.process = start(theirs)

    @property
    def is_waiting(self) -> bool:
        return self.process.poll() is None

    def assign(self, name: str, directory: Path, env: Mapping[str, str], fds: Sequence[int]) -> bool:
        """Give the agent its attempt. The first descriptor becomes its output, the others are its slot locks.

        Returns False if the agent has died.
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
    """Keeps at most one prewarmed agent, because each takes about ten megabytes of memory."""

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


def placeholder_env() -> dict[str, str]:
    return {"ANYGPU_NAME": PLACEHOLDER_NAME}
