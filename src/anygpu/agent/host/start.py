"""Start the agent of an attempt on this machine, at most once, and wait until it has ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time

from anygpu.agent.attempt_dir import ENDING_FILE
from anygpu.agent.files import write_json
from anygpu.agent.host.slots import Slot, free_labels, gpu_slots, hold_slots, try_lock, user_cpu_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

LOCK_TIMEOUT_S = 20.0
END_REPORT_S = 2.0
POLL_S = 0.5
SSH_VARIABLES = ("SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AUTH_SOCK", "SSH_ORIGINAL_COMMAND")


class StartRequest:
    """A request to start an attempt: its directory, ticket, SSH tunnel, and how many GPUs and CPUs it needs.

    `gpus` and `cpus` are None if no other attempt uses the machine. Then no GPU or CPU is locked for the attempt.
    """

    def __init__(self, directory: str, agent: str, fields: dict[str, Any]) -> None:
        self.directory = directory
        self.name = os.path.basename(directory)
        self.agent = agent
        self.ticket: dict[str, Any] | None = fields.get("ticket")
        self.tunnel: dict[str, Any] | None = fields.get("tunnel")
        self.deliver = bool(fields.get("deliver"))
        self.gpus: int | None = fields.get("gpus")
        self.gpu_kind: str = fields.get("gpu_kind") or ""  # only GPUs of this model; empty: of any model
        self.cpus: int | None = fields.get("cpus")
        self.cpu_count: int = fields.get("cpu_count") or os.cpu_count() or 1
        self.gpu_uuids: list[str] | None = None  # the GPUs to choose from; None: all GPUs of the machine
        self.environment: dict[str, str] | None = None  # None: the environment of this process


def start_agent(request: StartRequest) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
    """Start the agent of an attempt. Return the reply to the server, and the process if one was started.

    The reply's `agent` is one of: started; alive (already running); dead (ran before and ended); ended (a
    kill request came first); unknown (there is no ticket); full (not enough free GPUs or CPUs).
    """
    os.makedirs(request.directory, mode=0o700, exist_ok=True)
    with start_lock(request.directory):
        return _start_locked(request)


def _start_locked(request: StartRequest) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
    def exists(name: str) -> bool:
        return os.path.exists(os.path.join(request.directory, name))

    if exists("ended") and not request.deliver:
        return {"agent": "ended"}, None
    if request.tunnel is not None:
        write_json(os.path.join(request.directory, "tunnel.json"), request.tunnel)
    if is_running(request.directory):
        return {"agent": "alive"}, None
    if request.deliver:
        return _start_delivery(request) if exists("work.json") else ({"agent": "dead", "told": True}, None)
    if exists("process.json"):
        return {"agent": "dead", "told": has_reported_end(request.directory)}, None
    if request.ticket is not None:
        write_json(os.path.join(request.directory, "ticket.json"), request.ticket)
    return _start_with_slots(request) if exists("ticket.json") else ({"agent": "unknown"}, None)


def _start_with_slots(request: StartRequest) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
    slots, count = requested_slots(request)
    held = hold_slots(slots, count)
    if held is None:
        free = len(free_labels(slots))
        return {
            "agent": "full",
            "free": free,
            "of": len(slots),
            "what": "GPU" if request.gpus else "CPU slot",
        }, None
    env = {"ANYGPU_NAME": request.name, "ANYGPU_HOLD_FDS": ",".join(map(str, held.fds))}
    if request.gpus is not None:
        # A job without GPUs must not use those of another job.
        env["CUDA_VISIBLE_DEVICES"] = ",".join(held.labels) if request.gpus else ""
    try:
        child = _spawn_agent(request, [request.directory], env, held.fds)
    finally:
        held.close()
    return {"agent": "started", "pid": child.pid}, child


def _start_delivery(request: StartRequest) -> tuple[dict[str, Any], subprocess.Popen[bytes] | None]:
    child = _spawn_agent(request, ["--deliver", request.directory], {}, ())
    return {"agent": "started", "pid": child.pid}, child


def requested_slots(request: StartRequest) -> tuple[list[Slot], int]:
    if request.gpus:
        from anygpu.agent.host.gpus import query_gpus

        if request.gpu_uuids is not None:
            return gpu_slots(request.gpu_uuids), request.gpus
        cards = query_gpus()[0]
        kind = request.gpu_kind
        return gpu_slots([card["uuid"] for card in cards if kind in ("", card["kind"])]), request.gpus
    if request.cpus:
        return user_cpu_slots(request.cpu_count), request.cpus
    return [], 0


def _spawn_agent(
    request: StartRequest, arguments: list[str], env: dict[str, str], fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    """Start the agent in its own session, so that it survives the SSH connection.

    Wait until the agent holds its lock or has ended.
    """
    with open(os.path.join(request.directory, "agent.log"), "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", request.agent, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**(_agent_environment() if request.environment is None else request.environment), **env},
            cwd=request.directory,
            pass_fds=fds,
            start_new_session=True,
        )
    end = time.monotonic() + LOCK_TIMEOUT_S
    while not is_running(request.directory) and child.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    return child


def _agent_environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in SSH_VARIABLES}
    # uv installs itself here, but this directory is not on the PATH of an SSH command.
    own = os.path.join(os.path.expanduser("~"), ".local", "bin")
    if own not in env.get("PATH", "").split(os.pathsep):
        env["PATH"] = os.pathsep.join([env.get("PATH") or os.defpath, own])
    return env


def is_running(directory: str) -> bool:
    """Return whether the agent of this attempt runs. An agent holds its lock until it ends."""
    path = os.path.join(directory, "agent.lock")
    if not os.path.exists(path):
        return False
    fd = try_lock(path)
    if fd is not None:
        os.close(fd)
    return fd is None


def has_reported_end(directory: str) -> bool:
    """Return whether the server has received the end of the attempt. The agent then removes work.json."""
    has_started, is_undelivered = (
        os.path.exists(os.path.join(directory, name)) for name in ("process.json", "work.json")
    )
    return has_started and not is_undelivered


def wait_for_end_report(directory: str) -> None:
    """Wait a moment for an agent that is just reporting the end of its attempt.

    The server may end the attempt as soon as it has the report. The agent then still has to remove the files with the
    token and the secrets.
    """
    end, mark = time.monotonic() + END_REPORT_S, os.path.join(directory, ENDING_FILE)
    while os.path.exists(mark) and is_running(directory):
        if time.monotonic() > end:
            return
        time.sleep(0.01)


@contextlib.contextmanager
def start_lock(directory: str) -> Iterator[None]:
    """Hold a lock while the block runs, so that an attempt is not started and killed at the same time."""
    fd = os.open(os.path.join(directory, "start.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def wait_for_agent(directory: str, child: subprocess.Popen[bytes] | None = None) -> dict[str, Any] | None:
    """Wait until the agent has ended, and return the reply to the server.

    Return None if the SSH connection is lost first.
    """
    code = None
    while child is not None or is_running(directory):
        pid = child.pid if child is not None else _agent_pid(directory)
        if not _wait_for_exit(directory, pid):
            return None
        code = child.wait() if child is not None else None
        child = None  # if it was a duplicate, wait for the agent that holds the lock
    return {"exited": code, "told": has_reported_end(directory)}


def _agent_pid(directory: str) -> int | None:
    try:
        with open(os.path.join(directory, "agent.json"), encoding="utf-8") as file:
            return int(json.load(file)["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _wait_for_exit(directory: str, pid: int | None) -> bool:
    """Wait until the agent has ended. Return False if standard input ends first: the SSH connection is lost."""
    import select

    fd = _open_pidfd(pid)
    try:
        while fd is not None or is_running(directory):
            ready, _, _ = select.select(
                [0] if fd is None else [0, fd], [], [], POLL_S if fd is None else None
            )
            if fd is not None and fd in ready:
                return True
            if 0 in ready and not os.read(0, 4096):
                return False
        return True
    finally:
        if fd is not None:
            os.close(fd)


def _open_pidfd(pid: int | None) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if the system has no pidfd.

    Without a pidfd, the caller polls the agent's lock.
    """
    if pid is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
