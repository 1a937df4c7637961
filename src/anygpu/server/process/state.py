"""The state directory: its lock, secrets, address file, and the server's ports."""

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.errors import AnygpuError
from anygpu.files import write_atomic
from anygpu.server.process import log
from anygpu.server.process.listeners import bind
from anygpu.store.vault.key_file import KeyUnusable, create_private_file, read_private_file

TOKEN_BYTES = 32
BIND_RETRY_S = 5.0
# Below the range of outgoing connections, so that no other program takes the port while the server restarts.
AGENT_PORTS = range(20_000, 30_000)


class StateInUse(AnygpuError):
    """Another server uses this state directory. Use that server, stop it, or choose another directory."""

    code = "state_in_use"


class AddressInUse(AnygpuError):
    """The port is in use. Choose another with `server.port`, or 0 for a free one."""

    code = "address_in_use"


def prepare_directory(state: Path) -> None:
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        state.chmod(0o700)
    except OSError as error:
        raise AnygpuError(
            f"The state directory {state} cannot be used: {error.strerror}. Set the variable ANYGPU_STATE to "
            "a directory that you can write to."
        ) from error


@contextmanager
def lock_state(state: Path) -> Iterator[None]:
    """Hold the lock of the state directory. The kernel releases the lock when the process dies."""
    with (state / "server.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use_error(state) from None
        yield


def leader_name(state: Path, *, alone: bool) -> str:
    """Return the name under which this server holds the control lease.

    `alone`: no other server uses the same database. A restarted server then has the same name as before, and takes over
    the lease at once.
    """
    return f"{socket.gethostname()}-{state if alone else f'{os.getpid()}-{secrets.token_hex(4)}'}"


def _in_use_error(state: Path) -> StateInUse:
    address = read_address(state)
    if not address:
        return StateInUse(
            f"Another anygpu server is starting or stopping with the state directory {state}",
            hint="Try again in a moment.",
        )
    pid, url = address.get("pid"), address.get("url")
    hint = f"Use it, stop it (`kill {pid}`), or choose another directory with ANYGPU_STATE."
    return StateInUse(
        f"Another anygpu server (process {pid}) at {url} already uses the state directory {state}",
        hint=hint,
        pid=pid,
        url=url,
    )


def read_address(state: Path) -> dict[str, Any]:
    try:
        address: dict[str, Any] = json.loads((state / "server.json").read_text())
    except (OSError, ValueError):
        return {}
    return address


@contextmanager
def publish_address(state: Path, address: dict[str, Any]) -> Iterator[None]:
    """Write the server's address to `server.json`, and remove the file when the block ends."""
    path = state / "server.json"
    write_atomic(path, json.dumps(address).encode())
    try:
        yield
    finally:
        if read_address(state).get("pid") == address["pid"]:
            path.unlink(missing_ok=True)


def load_or_create_token(path: Path) -> str:
    """Return the operator's token. Create the file, with mode 0600, if it does not exist.

    Processes that do this at the same time get the same token.
    """
    if not path.exists():
        create_private_file(path, f"anygpu_{secrets.token_urlsafe(TOKEN_BYTES)}\n".encode())
    token = read_private_file(path).decode("ascii", "replace").strip()
    if len(token) < TOKEN_BYTES or not token.isprintable() or " " in token:
        raise KeyUnusable(
            f"The file {path} does not contain a token.",
            hint="Restore it, or delete it: the server then creates a new token when it starts.",
        )
    return token


def bind_api(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise AddressInUse(
            f"The server cannot listen on {host}:{port}: {error.strerror}. Choose another port with the "
            "setting server.port, or 0 for a free one."
        ) from error


def bind_agents(state: Path, host: str, port: int) -> socket.socket:
    """Return the socket of the agent listener, bound to `port` or else to the port it had before.

    Running agents outlive a restart of the server, so its port must stay the same.
    """
    if port:
        return _bind_with_retry(host, port)
    remembered = state / "agent_port"
    if remembered.exists():
        try:
            return _bind_with_retry(host, int(remembered.read_text()))
        except (AddressInUse, ValueError) as error:
            log.warning(
                "the previous port of the agent listener is in use, so running agents cannot reach this server",
                reason=str(error),
            )
    bound = _bind_free_port(host)
    write_atomic(remembered, str(bound.getsockname()[1]).encode())
    return bound


def _bind_with_retry(host: str, port: int) -> socket.socket:
    until = time.monotonic() + BIND_RETRY_S
    while True:
        try:
            return bind_api(host, port)
        except AddressInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _bind_free_port(host: str) -> socket.socket:
    for _ in range(100):
        try:
            return bind(host, secrets.choice(AGENT_PORTS))
        except OSError:
            continue
    return bind_api(host, 0)
