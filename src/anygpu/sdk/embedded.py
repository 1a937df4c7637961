"""Find, start and stop the server on this computer.

A lock ensures that two commands running at the same time start only one server.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from anygpu.errors import AnygpuError, ServerUnreachable
from anygpu.paths import config_path, default_state
from anygpu.sdk.http import Endpoint

START_TIMEOUT_S = 30.0
POLL_S = 0.01
LOG_LINES = 15
# Keep the Popen objects: Python warns when the object of a running process is deleted.
_CHILDREN: list[object] = []


class ServerFailed(AnygpuError):
    """The server on this computer did not start or stop. Read its log."""

    code = "server_failed"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """The address, process id and token of a running server."""

    url: str
    pid: int
    token: str

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url, self.token)


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the state directory from ANYGPU_STATE, else from the settings, else the default.

    Settings are loaded only if there is a settings file.
    """
    if chosen := environ.get("ANYGPU_STATE"):
        return Path(chosen).expanduser().absolute()
    if not config_path(environ).exists():
        return default_state(environ)
    from anygpu import settings

    return settings.load(environ=environ).state


def find_running(state: Path) -> RunningServer | None:
    """Return the server whose state directory is `state`; None if it is not running."""
    try:
        address = json.loads((state / "server.json").read_text())
        server = RunningServer(address["url"], int(address["pid"]), (state / "token").read_text().strip())
    except (OSError, ValueError, KeyError):
        return None
    return server if _is_server_process(server.pid) else None


def ensure_running(
    state: Path, on_start: Callable[[], None] = lambda: None, *, accept_new_keys: bool = False
) -> RunningServer:
    """Return the server on this computer. Start the server if it is not running."""
    server = find_running(state)
    if server is not None:
        return server
    create_state_dir(state)
    with _start_lock(state):
        server = find_running(state)
        if server is not None:
            return server
        on_start()
        return _start(state, server_command(state, accept_new_keys=accept_new_keys))


def create_state_dir(state: Path) -> None:
    """Create the state directory and check that it is writable."""
    from anygpu.settings import InvalidSettings

    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        why = "" if os.access(state, os.W_OK | os.X_OK) else "it is not writable"
    except OSError as error:
        why = (error.strerror or str(error)).lower()
    if why:
        hint = "Set the variable ANYGPU_STATE to a directory that you can write to."
        raise InvalidSettings(f"The state directory {state} cannot be used: {why}.", hint=hint)


def stop(state: Path, timeout_s: float = 20) -> int | None:
    """Stop the server and wait until it has ended.

    Return its process id, or None if no server was running.
    """
    server = find_running(state)
    if server is None:
        return None
    os.kill(server.pid, signal.SIGTERM)
    until = time.monotonic() + timeout_s
    while _is_server_process(server.pid):
        if time.monotonic() > until:
            raise ServerFailed(
                f"The server on this computer (process {server.pid}) has not stopped after {timeout_s:.0f} s.",
                hint=f"Read its log, {state / 'server.log'}. `kill -9 {server.pid}` ends it at once, and no job is "
                "lost.",
            )
        time.sleep(POLL_S)
    return server.pid


def server_command(state: Path, *, accept_new_keys: bool = False) -> list[str]:
    """Return the command that starts the server, with a free port if the configured port is in use."""
    from anygpu import settings

    port = settings.load(overrides={"state": state}).server.port
    chosen = port if _is_port_free(port) else 0
    command = [sys.executable, "-m", "anygpu.server", "--state", str(state), "--port", str(chosen)]
    return [*command, "--accept-new-keys"] if accept_new_keys else command


def _start(state: Path, command: list[str]) -> RunningServer:
    import subprocess

    log = state / "server.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    _CHILDREN.append(child)
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until:
        server = find_running(state)
        if server is not None:
            return server
        if child.poll() is not None:
            raise ServerFailed(
                f"The server on this computer could not start; it exited with code {child.returncode}. The end of "
                f"its log:\n{_log_tail(log)}"
            )
        time.sleep(POLL_S)
    raise ServerUnreachable(
        f"The server on this computer is not ready after {START_TIMEOUT_S:.0f} s. Try again, or read the "
        f"end of its log:\n{_log_tail(log)}"
    )


@contextlib.contextmanager
def _start_lock(state: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:
        raise ServerFailed(
            "The server does not run on this operating system; it needs Linux or macOS.",
            hint="Use a server on another computer with `anygpu login URL`.",
        ) from None
    with (state / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _log_tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([*lines[-LOG_LINES:], f"(full log: {log})"])


def _is_server_process(pid: int) -> bool:
    """Return whether the process is an anygpu server.

    Process ids are reused, and no other process may receive the token.
    """
    try:
        os.kill(pid, 0)
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (ProcessLookupError, PermissionError):
        return False
    except OSError:
        return True  # no /proc on this system
    return b"anygpu.server" in command_line  # empty for a zombie


def _is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def has_crashed(state: Path) -> bool:
    """Return whether the server ended without a normal stop, which would have removed the address file."""
    return (state / "server.json").exists() and find_running(state) is None
