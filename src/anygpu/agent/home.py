"""The attempt's directory on this machine: what lies where, and who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOCK_TRIES, LOCK_EVERY_S = 10, 0.02


class Home:
    """`<directory>`, given to the agent by the backend. Everything in it is private to this attempt."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.abspath(directory)
        self.spool = self.join("spool")
        self.channel = self.join("channel")
        self.work = self.join("work")
        self.library = self.join("lib")
        self._lock_fd = -1

    def join(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    def lock(self) -> bool:
        """False when another agent holds this directory.

        The kernel lets go when the agent dies, however it dies.
        """
        self._lock_fd = os.open(self.join("agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                # A backend that looks whether we live holds it for a moment.
                time.sleep(LOCK_EVERY_S)
        return False

    def read(self, name: str) -> dict[str, Any] | None:
        """A JSON file of this directory, or None when it was never written."""
        try:
            with open(self.join(name), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return None

    def write(self, name: str, value: dict[str, Any]) -> None:
        write_json(self.join(name), value)

    def forget(self, *names: str) -> None:
        """Files and directories that have served. What cannot be removed stays; nobody depends on it."""
        for name in names:
            try:
                os.unlink(self.join(name))
            except OSError:
                import shutil

                shutil.rmtree(self.join(name), ignore_errors=True)

    def claimant(self) -> str:
        """Who we are to the server: made once, kept, so that asking twice is asking once."""
        known = self.read("claimant.json")
        if known is None:
            known = {"claimant": os.urandom(16).hex()}
            self.write("claimant.json", known)
        return str(known["claimant"])


def write_json(path: str, value: dict[str, Any]) -> None:
    """Whole or not at all, and readable by nobody else: tokens and secrets pass through here."""
    draft = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(draft, path)
