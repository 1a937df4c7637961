"""Simulated hosts for tests, each with a real SSH server and its own home directory. No root is needed."""

import os
import pwd
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from anygpu.backends.ssh.connection import SshLogin
from anygpu.backends.ssh.keys import KeyPair, attempt_key
from anygpu.cloudsim.machine.directory import MachineDirectory
from anygpu.cloudsim.machine.network import MachineNetwork
from anygpu.cloudsim.machine.openssh import OpenSshServer
from anygpu.cloudsim.machine.sessions import SshSessions
from anygpu.cloudsim.machine.ssh_server import AsyncsshServer

ServerKind = Literal["asyncssh", "openssh"]
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
BEST_SERVER: ServerKind = "openssh" if SSHD else "asyncssh"
HOST = "127.0.0.1"


class SshTestHost:
    """A host with an SSH server that can be closed and opened again.

    `path` contains the directories of the environment variable PATH on the host.
    """

    def __init__(self, server: ServerKind, directory: Path, *, path: Sequence[str] = ()) -> None:
        python = str(Path(sys.executable).parent)
        variables = {
            "PATH": ":".join(path or (python, "/usr/local/bin", "/usr/bin", "/bin")),
            "ANYGPU_GPU_LOCKS": str(directory / "gpu-locks"),
        }
        self._server = server
        self._directory = MachineDirectory(directory, variables)
        self._network = MachineNetwork()
        self._sessions = SshSessions(self._directory)
        self.home = self._directory.home
        self.user = pwd.getpwuid(os.getuid()).pw_name  # the only user that sshd accepts without root
        self.key: KeyPair = attempt_key(b"a person's own", "person")
        self.host_key: KeyPair = attempt_key(b"a box's own", str(directory))
        self.port = 0
        self.allows_forwarding = True
        self._directory.create((self.key.public_openssh,))

    def login(self, **instead: Any) -> SshLogin:
        fields = {
            "machine": "box",
            "host": HOST,
            "port": self.port,
            "user": self.user,
            "private_key": self.key.private_openssh,
        }
        return SshLogin(**{**fields, **instead})

    async def open(self) -> None:
        self.port = self.port or free_port()
        await self._new_server().listen(HOST, self.port)

    async def close(self) -> None:
        """Stop the SSH server. Background processes that were started over SSH keep running."""
        self._network.close()
        await self._sessions.wait_closed(within_s=5)

    def _new_server(self) -> AsyncsshServer | OpenSshServer:
        private = self.host_key.private_openssh
        if self._server == "openssh":
            return OpenSshServer(str(SSHD), self._directory, self._network, self._sessions, private)
        return AsyncsshServer(
            self._network,
            private,
            self._directory.read_authorized_keys,
            self._sessions.serve,
            allows_forwarding=lambda: self.allows_forwarding,
        )


@asynccontextmanager
async def open_ssh_host(server: ServerKind, directory: Path, **options: Any) -> AsyncIterator[SshTestHost]:
    host = SshTestHost(server, directory, **options)
    await host.open()
    try:
        yield host
    finally:
        await host.close()


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port
