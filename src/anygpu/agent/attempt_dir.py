"""The directory of an attempt on this machine: its files, its lock, and the removal of old attempt directories."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time

from anygpu.agent.files import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

STATE_DIR = ".anygpu"  # contains the files of anygpu that belong to the working directory of the job
LOCK_TRIES, LOCK_RETRY_S = 10, 0.02
DAY_S = 86_400.0
ENDING_FILE = "ending"  # exists while the agent reports the end of the attempt
DELIVERED_RETENTION_S = 1 * DAY_S  # for debugging
UNDELIVERED_RETENTION_S = 30 * DAY_S  # the directory has reports that did not reach the server


class AttemptDir:
    """The directory that the backend gave to the agent. Everything in it is private to the attempt."""

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
        """Lock the directory until this process ends. Return False if another agent holds the lock."""
        self._lock_fd = os.open(self.join("agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for _ in range(LOCK_TRIES):
            try:
                fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                # A backend that checks whether the agent runs holds the lock for a moment.
                time.sleep(LOCK_RETRY_S)
        return False

    def read_json(self, name: str) -> dict[str, Any] | None:
        """Return the content of JSON file `name`; None if the file does not exist."""
        try:
            with open(self.join(name), encoding="utf-8") as file:
                value: dict[str, Any] = json.load(file)
                return value
        except FileNotFoundError:
            return None

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        write_json(self.join(name), value)

    def create_marker(self, name: str) -> None:
        """Create an empty file. Errors, such as a full disk, are ignored: nothing may depend on the marker alone."""
        with contextlib.suppress(OSError):
            os.close(os.open(self.join(name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def remove(self, *names: str) -> None:
        """Remove these files and directories of the attempt. Errors are ignored: nothing depends on it."""
        for name in names:
            try:
                os.unlink(self.join(name))
            except OSError:
                import shutil

                shutil.rmtree(self.join(name), ignore_errors=True)

    def claimant(self) -> str:
        """Return the random id by which the server recognises this agent.

        The id is stored in the directory, so that the server knows the agent again if it repeats its claim.
        """
        stored = self.read_json("claimant.json")
        if stored is None:
            stored = {"claimant": os.urandom(16).hex()}
            self.write_json("claimant.json", stored)
        return str(stored["claimant"])


class JobDirectories:
    """The working directory of a job, and the directories for its outputs and checkpoints.

    Each file has a name that is the same on every machine: its path relative to the working directory. Names
    that begin with STATE_DIR belong to anygpu. For a job that runs in place, in a directory of the user, these
    files are in the directory of the attempt, so that anygpu adds nothing to the user's directory.
    """

    def __init__(self, cwd: str, state_root: str | None = None) -> None:
        """Describe the directories. A job with a `state_root` runs in place: STATE_DIR is below it."""
        self.cwd = cwd
        self.in_place = state_root is not None
        self.state_root = state_root or cwd
        self.state_dir = os.path.join(self.state_root, STATE_DIR)
        self.outputs = os.path.join(self.state_dir, "outputs")
        self.checkpoints = os.path.join(self.state_dir, "checkpoints")

    def create(self) -> None:
        for directory in (self.cwd, self.outputs, self.checkpoints):
            os.makedirs(directory, exist_ok=True)

    def root_of(self, name: str) -> str:
        """Return the directory to which the name of a file is relative."""
        return self.state_root if name.split("/", 1)[0] == STATE_DIR else self.cwd

    def path_of(self, name: str) -> str:
        return os.path.join(self.root_of(name), name)

    def name_of(self, path: str) -> str:
        """Return the name of the file at `path`.

        A file outside of the working directory gets its base name. If the job runs in place, it gets a name in
        STATE_DIR, so that it is never restored to the user's directory.
        """
        for root in (self.cwd, self.state_root):
            relative = os.path.relpath(os.path.realpath(path), os.path.realpath(root))
            if relative.split(os.sep, 1)[0] != os.pardir:
                return relative
        name = os.path.basename(path)
        return f"{STATE_DIR}/checkpoints/{name}" if self.in_place else name


def process_identity(pid: int) -> dict[str, Any]:
    """Return the pid and the start time of a process.

    Together they identify the process even if the pid is used again later.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start_ticks: int | None = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        start_ticks = None
    return {"pid": pid, "start_ticks": start_ticks, "at": time.time()}


def remove_old_attempts(attempts: str, alive: Container[str], now: float | None = None) -> list[str]:
    """Remove the directories of attempts that ended long ago, and return the names of these attempts.

    `attempts` is the directory that contains them; `alive` has the names of attempts that still run.
    """
    now = time.time() if now is None else now
    ended = [name for name in _attempt_names(attempts) if name not in alive]
    old = [
        name
        for name in ended
        if now - _last_modified(os.path.join(attempts, name)) > _retention_s(attempts, name)
    ]
    if old:
        import shutil

        for name in old:
            shutil.rmtree(os.path.join(attempts, name), ignore_errors=True)
    return old


def _attempt_names(attempts: str) -> list[str]:
    try:
        names = [name for name in os.listdir(attempts) if name.startswith("anygpu-")]
    except FileNotFoundError:
        return []
    return [name for name in names if os.path.isdir(os.path.join(attempts, name))]


def _retention_s(attempts: str, name: str) -> float:
    """Return for how many seconds to keep the directory of an ended attempt.

    It is kept longer if work.json still exists: the agent removes that file once the server has received the
    end of the attempt.
    """
    undelivered = os.path.exists(os.path.join(attempts, name, "work.json"))
    return UNDELIVERED_RETENTION_S if undelivered else DELIVERED_RETENTION_S


def _last_modified(directory: str) -> float:
    return max(os.stat(path).st_mtime for path in (directory, *_json_files(directory)))


def _json_files(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(".json")]
