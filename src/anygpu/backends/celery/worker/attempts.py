"""The attempts of one worker: start their agents, know what runs, and end them.

An agent is a process of its own session, so it keeps running if the worker dies. A restarted worker finds it by its
directory and its environment.
"""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anygpu.agent.attempt_dir import remove_old_attempts
from anygpu.agent.exit_codes import DUPLICATE
from anygpu.agent.host.processes import kill_attempt
from anygpu.agent.host.requests import kill_and_block, running_attempts
from anygpu.agent.host.start import StartRequest, has_reported_end, is_running, start_agent
from anygpu.backends.celery.messages import (
    ENDED_COUNT,
    EndedAttempt,
    ReportedAttempt,
    StartMessage,
    is_attempt,
    own_version,
)
from anygpu.backends.celery.worker.deliveries import Deliveries
from anygpu.backends.local.agents import AGENT, agent_environment
from anygpu.errors import LaunchRefused, NoCapacity, describe_error

POLL_S = 0.5
REACH_TIMEOUT_S = 5.0
MAX_LOG_LINE = 400
AttemptKey = tuple[str, str]  # owner and name


class DuplicateAttempt(Exception):
    """Another agent has claimed the attempt: its message was delivered twice. It proves nothing about the attempt."""


class WorkerAttempts:
    """Runs the attempts of a worker, one at a time. Methods may be called from several threads."""

    def __init__(
        self,
        worker: str,
        directory: Path,
        gpu_uuids: Sequence[str],
        on_change: Callable[[AttemptKey], None] = lambda key: None,
    ) -> None:
        self._worker = worker
        self._directory = directory
        self._gpu_uuids = list(gpu_uuids)
        self.on_change = on_change
        self._active: dict[AttemptKey, str] = {}
        self._ended: deque[EndedAttempt] = deque(maxlen=ENDED_COUNT)
        self._deliveries = Deliveries(directory)
        self._inherited: dict[
            AttemptKey, str
        ] = {}  # agents that an earlier process of this worker has started
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def run(self, message: StartMessage) -> str:
        """Start the agent of an attempt, wait until it has ended, and return what happened.

        Nothing is started if the attempt was started or ended here before, or if the worker is busy.
        """
        key = (message.owner, message.name)
        if (self._attempt_directory(*key) / "ended").exists():
            return f"the attempt was ended before on {self._worker}"
        others = [each.name for each in self.listed() if (each.owner, each.name) != key]
        if others:
            text = f"The worker {self._worker} runs {others[0]}, and takes one attempt at a time"
            return self._record(key, text, refusal=NoCapacity.code)
        problem = _reach_problem(message)
        if problem:
            return self._record(key, f"The worker {self._worker} {problem}", refusal=NoCapacity.code)
        with self._lock:
            self._active[key] = "starting"
        self.on_change(key)
        refusal = ""
        try:
            detail, refusal = self._run_agent(message)
        except OSError as error:
            detail = f"The worker {self._worker} could not start the agent: {describe_error(error)}"
            refusal = LaunchRefused.code
        except DuplicateAttempt as duplicate:
            self._forget(key)
            return str(duplicate)
        except BaseException:
            self._forget(key)
            raise
        return self._record(key, detail, refusal=refusal)

    def refuse(self, message: Any, problems: str) -> None:
        """Report that a message is not a valid order, if it names an attempt that was never started here."""
        fields = message if isinstance(message, dict) else {}
        owner, name = str(fields.get("owner")), str(fields.get("name"))
        if not is_attempt(owner, name) or self._attempt_directory(owner, name).exists():
            return
        with self._lock:
            if (owner, name) in self._active:
                return
        text = f"The worker {self._worker} (anygpu {own_version()}) does not understand the order: {problems}"
        self._record((owner, name), text, refusal=LaunchRefused.code)

    def end(self, owner: str, name: str) -> bool:
        """Kill an attempt, and make sure that it is never started here. Return False if a process still runs."""
        if any(each.name == name and each.owner != owner for each in self.listed()):
            return True  # the attempt belongs to another server
        gone = bool(kill_and_block(str(self._attempt_directory(owner, name)))["gone"])
        if gone and (owner, name) not in [(each.owner, each.name) for each in self.ended()]:
            self._record((owner, name), f"the attempt was ended on {self._worker}")
        return gone

    def stop_agents(self) -> None:
        """Send SIGTERM to the agents: they save a checkpoint and stop, and their jobs continue elsewhere."""
        for attempt in self.listed():
            directory = self._attempt_directory(attempt.owner, attempt.name)
            pid = _agent_pid(directory)
            if pid and is_running(str(directory)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)

    def listed(self) -> list[ReportedAttempt]:
        """Return the attempts that start or run here, also those of an earlier process of this worker."""
        with self._lock:
            active = dict(self._active)
        running = {
            (owner.name, name): "running" if self._is_agent_alive(owner / name) else "exited"
            for owner in sorted(self._directory.iterdir())
            if owner.is_dir()
            for name in running_attempts(str(owner))
            if is_attempt(owner.name, name) and _has_started(owner / name)
        }
        self._inherited = {key: state for key, state in running.items() if key not in active}
        return [
            ReportedAttempt.model_validate({"owner": owner, "name": name, "state": state})
            for (owner, name), state in (running | active).items()
        ]

    def remove_old(self) -> None:
        """Remove the directories of attempts that ended long ago. Reads the directories of all ended attempts."""
        for owner in self._directory.iterdir():
            if owner.is_dir():
                remove_old_attempts(str(owner), running_attempts(str(owner)))

    def deliver_missing(self) -> None:
        """Send what dead agents have left, also those that died while no worker ran, such as with the machine."""
        with self._lock:
            active = {self._attempt_directory(*key) for key in self._active}
        self._deliveries.start_missing(active)

    def has_changed(self) -> bool:
        """Return whether an agent of an earlier process of this worker has ended since the attempts were listed."""
        return any(
            state == "running" and not self._is_agent_alive(self._attempt_directory(*key))
            for key, state in self._inherited.items()
        )

    def _is_agent_alive(self, directory: Path) -> bool:
        return is_running(str(directory)) and not self._deliveries.is_delivering(directory)

    def ended(self) -> list[EndedAttempt]:
        with self._lock:
            return list(self._ended)

    # -- start ------------------------------------------------------------------------------------------------

    def _run_agent(self, message: StartMessage) -> tuple[str, str]:
        """Start the agent and wait for its end. Return what happened, and the code of the error if it did not start."""
        directory = self._attempt_directory(message.owner, message.name)
        directory.parent.mkdir(exist_ok=True, mode=0o700)
        answer, child = start_agent(self._start_request(message, directory))
        started = answer["agent"]
        if started == "full":
            return self._describe_shortage(message, answer), NoCapacity.code
        if started in ("ended", "dead"):
            return f"the attempt was {'ended' if started == 'ended' else 'run'} before on {self._worker}", ""
        with self._lock:
            self._active[message.owner, message.name] = "running"
        self.on_change((message.owner, message.name))
        code = child.wait() if child is not None else None
        while is_running(str(directory)):  # an agent of an earlier process of this worker
            time.sleep(POLL_S)
        if code == DUPLICATE:
            raise DuplicateAttempt(f"another agent has the attempt, so {self._worker} has not started it")
        if (directory / "process.json").exists():
            kill_attempt(message.name)  # without its agent, nobody watches what is left of the job
        self._deliveries.start(directory)
        return self._describe_exit(directory, code), ""

    def _start_request(self, message: StartMessage, directory: Path) -> StartRequest:
        request = StartRequest(
            str(directory),
            str(AGENT),
            {"ticket": message.ticket, "gpus": message.gpus, "cpus": message.cpus},
        )
        request.gpu_uuids = self._gpu_uuids
        request.environment = agent_environment()
        return request

    def _describe_shortage(self, message: StartMessage, answer: dict[str, Any]) -> str:
        what, wanted = ("GPUs of", message.gpus) if message.gpus else ("CPUs of the machine of", message.cpus)
        free = f"{answer['free']} of {answer['of']} {what} the worker {self._worker} are free"
        return f"{free}; the job needs {wanted}"

    def _describe_exit(self, directory: Path, code: int | None) -> str:
        if has_reported_end(str(directory)) or not code:
            return f"the agent on {self._worker} has ended"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        last = _last_line(directory / "agent.log")
        return f"the agent on {self._worker} {how}{f': {last}' if last else ''}"

    def _record(self, key: AttemptKey, detail: str, *, refusal: str = "") -> str:
        owner, name = key
        ended = EndedAttempt(owner=owner, name=name, detail=detail[:2000], refusal=refusal)
        with self._lock:  # no report must lack the attempt in both lists
            self._active.pop(key, None)
            for earlier in [each for each in self._ended if (each.owner, each.name) == key]:
                self._ended.remove(earlier)
            self._ended.append(ended)
        self.on_change(key)
        return detail

    def _forget(self, key: AttemptKey) -> None:
        with self._lock:
            self._active.pop(key, None)
        self.on_change(key)

    def _attempt_directory(self, owner: str, name: str) -> Path:
        return self._directory / owner / name


def _has_started(directory: Path) -> bool:
    """Return whether this worker has started the attempt, and not another one on the same machine."""
    return is_running(str(directory)) or (directory / "process.json").exists()


def _agent_pid(directory: Path) -> int | None:
    try:
        return int(json.loads((directory / "agent.json").read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:MAX_LOG_LINE] if lines else ""


def _reach_problem(message: StartMessage) -> str:
    """Return why the agent could not reach a server from this machine; empty if it can, or if it uses a relay."""
    if message.ticket.get("relay") or message.ticket.get("rendezvous"):
        return ""
    problems = []
    for url in message.server_urls:
        problem = _connection_problem(url)
        if not problem:
            return ""
        problems.append(f"cannot reach the server at {url}: {problem}")
    if not problems:
        return ""
    return (
        f"{problems[0]}. Set `server.agent_host` and `server.agent_url` of the server to an address that the workers "
        "can reach, and check the firewall"
    )


def _connection_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=REACH_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return describe_error(error)
    return ""
