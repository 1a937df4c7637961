"""Send the reports that dead agents left on this machine, such as after a restart of the machine."""

import contextlib
import math
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from anygpu.agent import exit_codes
from anygpu.agent.host.start import StartRequest, is_running, start_agent
from anygpu.backends.local.agents import AGENT, agent_environment

RETRY_S = 600.0  # after a delivery that could not reach the server; it has tried for an hour
MAX_DELIVERIES = 4


class Deliveries:
    """The processes that send what dead agents have stored. The server accepts reports at any time.

    An attempt directory has `work.json` until the server has the end of its attempt.
    """

    def __init__(self, attempts: Path) -> None:
        self._attempts = attempts
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._next_try_s: dict[Path, float] = {}
        self._lock = threading.Lock()

    def start(self, directory: Path) -> None:
        """Start to deliver for the attempt in `directory`, unless the server has everything, or its agent runs."""
        with self._lock:
            self._reap()
            if _is_undelivered(directory) and directory not in self._children:
                self._start(directory)

    def start_missing(self, active: set[Path]) -> None:
        """Start to deliver for every dead agent, except for attempts that are `active` in this process."""
        with self._lock:
            self._reap()
            for directory in self._due(active):
                if len(self._children) >= MAX_DELIVERIES:
                    return
                self._start(directory)

    def is_delivering(self, directory: Path) -> bool:
        """Return whether it is a delivery that holds the lock of the agent, and not the agent itself."""
        with self._lock:
            self._reap()
            return directory in self._children

    def _due(self, active: set[Path]) -> Iterator[Path]:
        now = time.monotonic()
        for work in sorted(self._attempts.glob("*/*/work.json")):
            directory = work.parent
            waits = directory in active or directory in self._children
            if not waits and now >= self._next_try_s.get(directory, 0) and _is_undelivered(directory):
                yield directory

    def _start(self, directory: Path) -> None:
        self._next_try_s[directory] = time.monotonic() + RETRY_S
        request = StartRequest(str(directory), str(AGENT), {"deliver": True})
        request.environment = agent_environment()
        with contextlib.suppress(OSError):  # such as a full disk: it is tried again
            _, child = start_agent(request)
            if child is not None:
                self._children[directory] = child

    def _reap(self) -> None:
        for directory, child in [*self._children.items()]:
            if child.poll() is not None:
                del self._children[directory]
                refused = child.returncode == exit_codes.REJECTED
                self._next_try_s[directory] = math.inf if refused else time.monotonic() + RETRY_S


def _is_undelivered(directory: Path) -> bool:
    return (directory / "work.json").exists() and not is_running(str(directory))
