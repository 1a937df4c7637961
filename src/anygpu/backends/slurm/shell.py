"""Run shell programs on a Slurm cluster: on its login node over SSH, or on the server's own machine.

A program is sent through standard input, so that nothing of it, such as a ticket, is visible in the list of
processes. A program that reads data from standard input is an argument of the shell instead, because a shell may read
more than its program. It must not wait for the end of its input. One SSH connection serves all programs.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from anygpu.backends.ssh.connection import SshConnector, SshLogin, disconnect
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.errors import AnygpuError, BackendNotOpen, BackendUnavailable

if TYPE_CHECKING:
    import asyncssh

COMMAND_TIMEOUT_S = 60.0
RECONNECT_PAUSE_S = 0.5  # many callers may wait for a login node that does not answer
MAX_SESSIONS = 6  # at the same time: OpenSSH allows ten sessions of one connection
CHUNK_BYTES = 1 << 16
MAX_OUTPUT_BYTES = 64 * 1024**2
PASSED_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "SHELL", "LD_LIBRARY_PATH", "SLURM_CONF")


class ClusterOutcomeUnknown(BackendNotOpen):
    """The connection to the cluster was lost while a command ran there. It is tried again automatically."""

    # Not a LaunchError: the command may have submitted a job.
    code = "cluster_outcome_unknown"


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The exit code and the output of a program."""

    code: int
    output: str
    errors: str

    @property
    def message(self) -> str:
        """The last lines that the program printed as errors, for an error message."""
        lines = [line for line in (self.errors or self.output).strip().splitlines() if line.strip()]
        return " ".join(lines[-3:])[:1000] or f"it ended with code {self.code} and printed nothing"


class ClusterShell(Protocol):
    """Runs shell programs on a cluster."""

    name: str  # of the machine, for messages

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        """Run the program; `data`, if any, is what it reads from standard input. It must have no secrets then.

        Raise BackendUnavailable if it certainly did not start, and ClusterOutcomeUnknown if it may have started.
        """
        ...

    async def close(self) -> None: ...


def _shell_command(program: str, data: bytes) -> tuple[list[str], bytes]:
    """Return the command line of the shell and its standard input."""
    # The braces make the shell read the whole program before it runs it.
    return (
        (["sh", "-c", program], data) if data else (["sh", "-s"], b"{\n" + program.encode() + b"\nexit\n}\n")
    )


class LocalShell:
    """Runs programs on the server's machine, without the server's own environment variables."""

    name = "the server's machine"

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        passed = {name: value for name, value in os.environ.items() if name in PASSED_VARIABLES}
        self._environment = {**passed, **(variables or {})}
        self._sessions = asyncio.Semaphore(MAX_SESSIONS)

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        command, standard_input = _shell_command(program, data)
        async with self._sessions:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise BackendUnavailable(f"The server's machine could not start a shell: {error}") from error
            try:
                async with asyncio.timeout(timeout_s):
                    output, errors = await process.communicate(standard_input)
            except TimeoutError as error:
                raise ClusterOutcomeUnknown(
                    f"A command of Slurm did not end within {timeout_s:g} s on the server's machine. Check the "
                    "Slurm controller (scontrol ping)."
                ) from error
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)  # also the command for which the shell waits
                    await process.wait()
        return _result(process.returncode or 0, output, errors)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


class SshShell:
    """Runs programs on a login node over one SSH connection, which is opened again if it is lost."""

    def __init__(self, login: SshLogin, connector: SshConnector) -> None:
        self.name = login.machine
        self.login = login
        self._connector = connector
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connect_lock = asyncio.Lock()
        self._refusal: AnygpuError | None = None  # of the last login, for callers that waited for it
        self._retry_at = 0.0
        self._sessions = asyncio.Semaphore(MAX_SESSIONS)

    async def run(
        self, program: str, data: bytes = b"", *, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> ShellResult:
        async with self._sessions:
            connection = await self.connection()
            return await self._run(connection, *_shell_command(program, data), timeout_s)

    async def connection(self) -> "asyncssh.SSHClientConnection":
        """Return the open connection to the login node. Raise an error of `ssh.errors` if there is none."""
        async with self._connect_lock:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            if self._refusal is not None and time.monotonic() < self._retry_at:
                raise self._refusal
            try:
                self._connection = await self._connector.connect(self.login)
            except AnygpuError as error:
                self._refusal, self._retry_at = error, time.monotonic() + RECONNECT_PAUSE_S
                raise
            self._refusal = None
            return self._connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await disconnect(connection)

    async def _run(
        self,
        connection: "asyncssh.SSHClientConnection",
        command: list[str],
        standard_input: bytes,
        timeout_s: float,
    ) -> ShellResult:
        import asyncssh

        process: asyncssh.SSHClientProcess[bytes] | None = None
        try:
            async with asyncio.timeout(timeout_s):
                process = await self._start(connection, shlex.join(command))
                await _feed(process, standard_input)
                done = await process.wait()
        except TimeoutError as error:
            if process is None:
                raise self._no_session(connection, f"no answer in {timeout_s:g} s") from error
            # The connection stays open: other commands use it, and keepalive messages notice if it is lost.
            raise ClusterOutcomeUnknown(
                f"A command of Slurm did not end within {timeout_s:g} s on the login node {self.name}. Check the "
                "Slurm controller (scontrol ping)."
            ) from error
        except (OSError, asyncssh.Error) as error:
            self._drop(connection)
            raise ClusterOutcomeUnknown(
                f"The connection to the login node {self.name} was lost while a command ran there: "
                f"{error or type(error).__name__}. It is opened again automatically."
            ) from error
        finally:
            if process is not None:
                _end_process(process)
        if process.exit_status is None and process.exit_signal is None:
            self._drop(connection)
            raise ClusterOutcomeUnknown(
                f"The login node {self.name} closed the connection while a command ran there."
            )
        return _result(
            -1 if process.exit_status is None else process.exit_status,
            _bytes(done.stdout),
            _bytes(done.stderr),
        )

    async def _start(
        self, connection: "asyncssh.SSHClientConnection", command: str
    ) -> "asyncssh.SSHClientProcess[bytes]":
        """Start the shell. The program has not been sent yet, so nothing has run if this fails."""
        import asyncssh

        try:
            return await connection.create_process(command, encoding=None)
        except (OSError, asyncssh.Error) as error:
            raise self._no_session(connection, str(error) or type(error).__name__) from error

    def _no_session(self, connection: "asyncssh.SSHClientConnection", cause: str) -> SshUnreachable:
        """Drop a connection over which no shell can be started, and return the error."""
        self._drop(connection)
        return SshUnreachable(
            f"The login node {self.name} runs no commands: {cause}. Check that it is on, and that the user may log in.",
            machine=self.name,
            step="ssh",
        )

    def _drop(self, connection: "asyncssh.SSHClientConnection") -> None:
        connection.abort()
        if self._connection is connection:
            self._connection = None


def _end_process(process: "asyncssh.SSHClientProcess[bytes]") -> None:
    """End the command on the login node if it still runs, and close its session without waiting for it."""
    if process.exit_status is None and process.exit_signal is None:
        with contextlib.suppress(OSError):  # the session is closed already
            process.terminate()
    process.channel.abort()


async def _feed(process: "asyncssh.SSHClientProcess[bytes]", data: bytes) -> None:
    """Send the standard input in parts, without its end: some SSH servers drop data that comes just before the end.

    A program that ends before it has read everything is no error.
    """
    with contextlib.suppress(BrokenPipeError):
        for start in range(0, len(data), CHUNK_BYTES):
            process.stdin.write(data[start : start + CHUNK_BYTES])
            await process.stdin.drain()


def _bytes(output: object) -> bytes:
    return output if isinstance(output, bytes) else str(output or "").encode()


def _result(code: int, output: bytes, errors: bytes) -> ShellResult:
    return ShellResult(
        code, output[:MAX_OUTPUT_BYTES].decode("utf-8", "replace"), errors.decode("utf-8", "replace")
    )
