"""A machine's SSH server that starts OpenSSH's sshd for each connection.

If the simulator does not run as root, sshd accepts only the user who runs the simulator: log in as that user.
"""

import asyncio
import contextlib
import os
import shlex
import socket
import subprocess
from pathlib import Path

from anygpu.cloudsim.machine.directory import MachineDirectory, shell
from anygpu.cloudsim.machine.network import MachineNetwork
from anygpu.cloudsim.machine.processes import exit_code
from anygpu.cloudsim.machine.sessions import SshSessions

# sshd starts commands in the user's home directory, but each machine has a home directory of its own.
LOGIN_SCRIPT = """#!/bin/sh
cd "$HOME"
[ -s "{limit}" ] && {{ trap "" XFSZ; ulimit -S -f "$(cat "{limit}")"; }}
[ -z "$SSH_ORIGINAL_COMMAND" ] && exec {shell} -l
exec {shell} -c "$SSH_ORIGINAL_COMMAND"
"""


class OpenSshServer:
    """An SSH server that starts an sshd process for each connection."""

    def __init__(
        self,
        sshd: str,
        machine_directory: MachineDirectory,
        network: MachineNetwork,
        sessions: SshSessions,
        host_key: str,
    ) -> None:
        self._sshd = sshd
        self._machine_directory = machine_directory
        self._network = network
        self.sessions = sessions
        self._directory = machine_directory.path / "sshd"
        self._write(host_key)

    async def listen(self, host: str, port: int) -> None:
        await self._network.listen(host, port, lambda: _SshdConnection(self))

    def start_sshd(self, end: socket.socket) -> "subprocess.Popen[bytes]":
        argv = [self._sshd, "-i", "-e", "-f", str(self._directory / "config")]
        with (self._directory / "log").open("ab") as log:
            return self.sessions.start(
                argv, self._machine_directory.env(), stdin=end.fileno(), stdout=end.fileno(), stderr=log
            )

    def _write(self, host_key: str) -> None:
        self._directory.mkdir(mode=0o700, exist_ok=True)
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start as root without it
        _write_private(self._directory / "host_key", host_key, 0o600)
        enter = LOGIN_SCRIPT.format(limit=self._machine_directory.file_size_limit, shell=shell())
        _write_private(self._directory / "enter", enter, 0o700)
        _write_private(self._directory / "config", self._config(), 0o600)

    def _config(self) -> str:
        variables = " ".join(f'"{name}={value}"' for name, value in self._machine_directory.env().items())
        lines = (
            f"HostKey {self._directory / 'host_key'}",
            f"AuthorizedKeysFile {self._machine_directory.authorized_keys}",
            f"ForceCommand {shlex.quote(str(self._directory / 'enter'))}",
            f"SetEnv {variables}",
            "StrictModes no",
            "UsePAM no",
            "PidFile none",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            "AllowTcpForwarding yes",
            "AcceptEnv LANG LC_*",
            "MaxSessions 100",
            f"Subsystem sftp {_sftp_server()}",
        )
        return "".join(f"{line}\n" for line in lines)


class _SshdConnection(asyncio.Protocol):
    """Copies data between a network connection and its sshd process."""

    def __init__(self, server: OpenSshServer) -> None:
        self._server = server
        self._buffered: list[bytes] = []
        self._inner: asyncio.Transport | None = None
        self._outer: asyncio.Transport
        self._task: asyncio.Task[None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._outer = transport
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            self._buffered.append(data)
        else:
            self._inner.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        self._server.sessions.track_task()
        ours, theirs = socket.socketpair()
        child = self._server.start_sshd(theirs)
        theirs.close()
        try:
            loop = asyncio.get_running_loop()
            self._inner, _ = await loop.connect_accepted_socket(lambda: _SshdOutput(self._outer), ours)
            self._inner.writelines(self._buffered)
            await exit_code(child)
        finally:
            await _end_sshd(child, self._inner)


class _SshdOutput(asyncio.Protocol):
    def __init__(self, outer: asyncio.Transport) -> None:
        self._outer = outer

    def data_received(self, data: bytes) -> None:
        self._outer.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._outer.close()


async def _end_sshd(child: "subprocess.Popen[bytes]", inner: asyncio.Transport | None) -> None:
    """End the sshd process of a closed connection.

    Processes that were started over this connection keep running, as on any machine. If the machine is removed while
    sshd ends, sshd is killed, so that no process remains that nobody waits for.
    """
    if inner is not None:
        inner.close()
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        await exit_code(child)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _sftp_server() -> str:
    candidates = (
        "/usr/lib/openssh/sftp-server",
        "/usr/libexec/sftp-server",
        "/usr/libexec/openssh/sftp-server",
    )
    return next((path for path in candidates if Path(path).exists()), "internal-sftp")


def _write_private(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)
