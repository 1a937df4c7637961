"""The directory of an attempt on this machine: its files, its lock, and the removal of old ones."""

from __future__ import annotations

import fcntl
import json
import os
import time

from anygpu.agent.files import write_json_atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

LOCK_TRIES, LOCK_RETRY_S = 10, 0.02


class AttemptDir:
    """`<directory>`, given to the agent by the backend. Everything in it is private to this attempt."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.abspath(directory)
        self.spool_dir = self.join("spool")
        self.channel_dir = self.join("channel")
        self.work_dir = self.join("work")
        self.library_dir = self.join("lib")
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
                time.sleep(LOCK_RETRY_S)
        return False

    def read_json(self, name: str) -> dict[str, Any] | None:
        """A JSON file of this directory, or None when it was never written."""
        try:
            with open(self.join(name), encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except FileNotFoundError:
            return None

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_json_atomic(self.join(name), value)

    def remove(self, *names: str) -> None:
        """Files and directories that have served. What cannot be removed stays; nobody depends on it."""
        for name in names:
            try:
                os.unlink(self.join(name))
            except OSError:
                import shutil

                shutil.rmtree(self.join(name), ignore_errors=True)

    def claimant(self) -> str:
        """Who we are to the server: made once, kept, so that asking twice is asking once."""
        known = self.read_json("claimant.json")
        if known is None:
            known = {"claimant": os.urandom(16).hex()}
            self.write_json("claimant.json", known)
        return str(known["claimant"])


def process_identity(pid: int) -> dict[str, Any]:
    """A pid and when it began, in the kernel's own ticks.

    Together they name one process and never another.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start_ticks: int | None = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        start_ticks = None
    return {"pid": pid, "start_ticks": start_ticks, "at": time.time()}


DAY_S = 86_400.0
DELIVERED_RETENTION_S = 1 * DAY_S
UNDELIVERED_RETENTION_S = (
    30 * DAY_S
)  # its agent could not deliver everything; what it left may still be wanted


def remove_old_attempts(attempts: str, alive: Container[str], now: float | None = None) -> list[str]:
    """The names whose directories were removed."""
    now = time.time() if now is None else now
    dead = [name for name in _attempt_names(attempts) if name not in alive]
    old = [
        name
        for name in dead
        if now - _last_modified(os.path.join(attempts, name)) > _retention_s(attempts, name)
    ]
    for name in old:
        import shutil

        shutil.rmtree(os.path.join(attempts, name), ignore_errors=True)
    return old


def _attempt_names(attempts: str) -> list[str]:
    try:
        found = [name for name in os.listdir(attempts) if name.startswith("anygpu-")]
    except FileNotFoundError:
        return []
    return [name for name in found if os.path.isdir(os.path.join(attempts, name))]


def _retention_s(attempts: str, name: str) -> float:
    """An agent removes its work order once the end is told."""
    return (
        UNDELIVERED_RETENTION_S
        if os.path.exists(os.path.join(attempts, name, "work.json"))
        else DELIVERED_RETENTION_S
    )


def _last_modified(directory: str) -> float:
    return max(os.stat(path).st_mtime for path in (directory, *_json_files(directory)))


def _json_files(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json")]


STATE_DIR = ".anygpu"


def job_directories(cwd: str) -> tuple[str, str]:
    """(for outputs, for checkpoints).

    Inside the working directory, where relative paths mean the same anywhere.
    """
    return os.path.join(cwd, STATE_DIR, "outputs"), os.path.join(cwd, STATE_DIR, "checkpoints")
