"""An SSH server in this process, based on asyncssh: commands, terminals, files, port forwarding."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

import asyncssh
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from anygpu.cloudsim.machine.directory import MachineDirectory, PublicKey, public_key
from anygpu.cloudsim.machine.network import MachineNetwork
from anygpu.cloudsim.machine.sessions import SshSessions

LOGIN_TIMEOUT_S = 30


class _ListenerFactory:
    """An adapter that makes asyncssh listen through a `MachineNetwork`."""

    def __init__(self, network: MachineNetwork) -> None:
        self._network = network

    async def create_server(
        self, factory: Callable[[str, int], asyncio.Protocol], host: str, port: int
    ) -> asyncio.Server:
        return await self._network.listen(host, port, lambda: factory("", 0))


class AsyncsshServer:
    """An SSH server that accepts any user name with an authorized key.

    `serve` runs commands and shells; `files` serves SFTP and scp.
    """

    def __init__(
        self,
        network: MachineNetwork,
        host_key: str,
        read_authorized_keys: Callable[[], set[PublicKey]],
        serve: Callable[["asyncssh.SSHServerProcess[bytes]"], Awaitable[None]],
        files: Callable[["asyncssh.SSHServerChannel[bytes]"], asyncssh.SFTPServer] | None = None,
        allows_forwarding: Callable[[], bool] = lambda: True,
    ) -> None:
        self._network = network
        self._host_key = asyncssh.import_private_key(host_key)
        self._read_authorized_keys = read_authorized_keys
        self._serve = serve
        self._files = files
        self._allows_forwarding = allows_forwarding

    async def listen(self, host: str, port: int) -> None:
        await asyncssh.listen(
            host,
            port,
            tunnel=cast("Any", _ListenerFactory(self._network)),
            server_factory=lambda: _Login(self._read_authorized_keys, self._allows_forwarding),
            server_host_keys=[self._host_key],
            process_factory=self._serve,
            sftp_factory=self._files,
            allow_scp=self._files is not None,
            encoding=None,
            line_editor=False,
            agent_forwarding=False,
            login_timeout=LOGIN_TIMEOUT_S,
            config=None,
        )


class _Login(asyncssh.SSHServer):
    """Decides who may log in and forward ports: any user with a key that is authorized at that time.

    Port forwarding is allowed in both directions unless it is disabled.
    """

    def __init__(
        self, read_authorized_keys: Callable[[], set[PublicKey]], allows_forwarding: Callable[[], bool]
    ) -> None:
        self._read_authorized_keys = read_authorized_keys
        self._allows_forwarding = allows_forwarding
        self._connection: asyncssh.SSHServerConnection

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return public_key(key.export_public_key().decode()) in self._read_authorized_keys()

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return self._allows_forwarding()

    async def server_requested(self, listen_host: str, listen_port: int) -> asyncssh.SSHListener | bool:
        """Listen on loopback even if another address was requested, as OpenSSH does by default."""
        if not self._allows_forwarding():
            return False
        return await self._connection.forward_local_port("127.0.0.1", listen_port, listen_host, listen_port)


class MachineFiles(asyncssh.SFTPServer):
    """The files of a machine for SFTP. Relative paths start at the home directory, as in OpenSSH."""

    def __init__(
        self, channel: "asyncssh.SSHServerChannel[bytes]", directory: MachineDirectory, sessions: SshSessions
    ) -> None:
        super().__init__(channel)
        self._home = os.fsencode(directory.home)
        self._sessions = sessions

    def map_path(self, path: bytes) -> bytes:
        return os.path.join(self._home, path)  # noqa: PTH118 - bytes

    def exit(self) -> None:
        """Send an exit status, because OpenSSH's scp treats a session without one as failed."""
        self.channel.exit(0)

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        limit = self._sessions.file_bytes
        if limit is not None and offset + len(data) > limit:
            raise OSError(errno.ENOSPC, "No space left on device")
        return cast("int", super().write(file_obj, offset, data))


def new_host_key(comment: str) -> tuple[str, str]:
    """Generate a host key; return the private and the public key in OpenSSH's format."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} {comment}"
