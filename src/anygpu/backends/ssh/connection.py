"""Connect to machines over SSH: login, host key check, keep-alive, reverse tunnel.

Errors of asyncssh are translated to those in `ssh.errors`. asyncssh takes half a second to import, so it is
imported when the first machine is contacted.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anygpu.backends.ssh.errors import HostKeyChanged, SshRefused, SshUnreachable, TunnelRefused
from anygpu.backends.ssh.keys import HostKeyStore

if TYPE_CHECKING:
    import asyncssh

    Connection = asyncssh.SSHClientConnection
if TYPE_CHECKING:
    import asyncssh
    from asyncssh.forward import SSHForwarder


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLogin:
    """Address, user, key and expected host keys of a machine."""

    machine: str  # the name of the machine in messages
    host: str
    port: int = 22
    user: str = ""
    private_key: str = field(
        default="", repr=False
    )  # OpenSSH format; empty: `identity`, or the user's own keys
    identity: str = ""  # a private key file on the server
    host_keys: tuple[str, ...] = ()  # expected keys; empty: the first key seen is pinned
    pin: str = ""  # name under which the host key is pinned; empty: the address

    @property
    def pin_name(self) -> str:
        """The name under which the machine's host key is stored: `pin` if it is set, else host and port.

        Rented machines set `pin`, because providers give the same address to different machines.
        """
        return self.pin or f"{self.host}-{self.port}"

    @property
    def uses_ssh_config(self) -> bool:
        """Whether to connect as the command `ssh` does: with the user's keys, ssh-agent and ~/.ssh/config."""
        return not self.private_key


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTiming:
    """Timeouts of SSH, in seconds.

    A login has failed for good after `tries` tries and `patience_s` seconds, whichever is later.
    """

    tries: int = 5
    retry_interval_s: float = 10
    connect_s: float = 15  # for one try, until the login is done
    command_s: float = 300
    bootstrap_s: float = 300  # from the first login until the agent runs
    keepalive_s: float = 5
    keepalive_misses: int = 3
    first_retry_s: float = 0.2
    first_reconnect_s: float = 0.8  # by then the provider's list shows which machines have ended
    max_retry_s: float = 10
    max_handshakes: int = 16  # at the same time: each blocks the event loop for some milliseconds

    @property
    def patience_s(self) -> float:
        return self.tries * self.retry_interval_s


DEFAULT_PORT = 22
# Hardware-accelerated AES: asyncssh's default cipher takes four times as long for tunnel traffic.
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


class SshConnector:
    """Logs in to machines.

    The links of a backend share one connector, which limits the number of handshakes at the same time.
    """

    def __init__(self, pins: HostKeyStore, timing: SshTiming | None = None) -> None:
        self.pins = pins
        self.timing = timing or SshTiming()
        self._handshakes = asyncio.Semaphore(self.timing.max_handshakes)

    async def connect(self, login: SshLogin) -> "Connection":
        """Connect once and verify the host key. Raise SshUnreachable, SshRefused or HostKeyChanged."""
        import asyncssh

        expected = self.expected_host_keys(login)
        check = HostKeyCheck(expected)
        try:
            connection = await self._open(login, check)
        except asyncssh.HostKeyNotVerifiable as error:
            raise _host_key_changed(login, check) from error
        except asyncssh.PermissionDenied as error:
            raise _login_refused(login, error) from error
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise SshRefused(
                f"{login.machine}: the private key for the SSH login cannot be used: {error}",
                hint="Give a private key in OpenSSH format, without a passphrase.",
            ) from error
        except (OSError, TimeoutError, asyncssh.Error) as error:
            raise _unreachable(login, error) from error
        if not expected and check.shown not in self.pins.pin(login.pin_name, check.shown):
            connection.abort()
            raise _host_key_changed(login, check)
        return connection

    def expected_host_keys(self, login: SshLogin) -> tuple[str, ...]:
        """Return the host keys given in the login, or else the stored key of this machine.

        The result is empty before the first connection to the machine.
        """
        return login.host_keys or self.pins.get(login.pin_name)

    async def _open(self, login: SshLogin, check: "HostKeyCheck") -> "Connection":
        async with asyncio.timeout(self.timing.connect_s):
            if login.uses_ssh_config:  # ~/.ssh/config may use a jump host
                return await self._handshake(login, check)
            reached = await _connect_socket(login.host, login.port)
            try:
                async with self._handshakes:
                    return await self._handshake(login, check, sock=reached)
            except BaseException:
                reached.close()
                raise

    async def _handshake(self, login: SshLogin, check: "HostKeyCheck", **how: Any) -> "Connection":
        import asyncssh

        return await asyncssh.connect(
            login.host,
            # The default port is left out if ~/.ssh/config applies, because it may set another.
            login.port if login.port != DEFAULT_PORT or not login.uses_ssh_config else (),
            client_factory=lambda: _make_client(check),
            known_hosts=([], [], []),  # so that our own check decides about every key
            server_host_key_algs=_key_algorithms(check.expected),
            keepalive_interval=self.timing.keepalive_s,
            keepalive_count_max=self.timing.keepalive_misses,
            compression_algs=["none"],
            preferred_auth="publickey",
            login_timeout=self.timing.connect_s,
            **_login_options(login),
            **how,
        )


class HostKeyCheck:
    """Compares the host key that a machine presents with the expected keys."""

    def __init__(self, expected: Sequence[str]) -> None:
        self.expected = tuple(expected)
        self.shown = ""

    def accepts(self, key: "asyncssh.SSHKey") -> bool:
        self.shown = _key_text(key)
        return not self.expected or self.shown in {
            " ".join(key_line.split()[:2]) for key_line in self.expected
        }


async def fetch_host_key(login: SshLogin, timeout_s: float = 15) -> str:
    """Return the host key that a machine presents, without logging in."""
    import asyncssh

    try:
        async with asyncio.timeout(timeout_s):
            port = login.port if login.port != DEFAULT_PORT else ()
            key = await asyncssh.get_server_host_key(login.host, port)
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise _unreachable(login, error) from error
    if key is None:
        raise SshUnreachable(
            f"{login.machine} ({login.host}:{login.port}) sent no SSH host key. Check that an SSH server "
            "listens on this address and port."
        )
    return _key_text(key)


def fingerprint(key: str) -> str:
    """Return the fingerprint of a public key in the format of `ssh-keygen -l`."""
    import asyncssh

    return f"{key.split()[0]} {asyncssh.import_public_key(key).get_fingerprint()}"


def _key_text(key: "asyncssh.SSHKey") -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def _make_client(check: HostKeyCheck) -> "asyncssh.SSHClient":
    import asyncssh

    class _Client(asyncssh.SSHClient):
        def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
            return check.accepts(key)

    return _Client()


def _login_options(login: SshLogin) -> dict[str, Any]:
    import asyncssh

    user: dict[str, Any] = {"username": login.user} if login.user else {}
    if login.private_key:
        key = asyncssh.import_private_key(login.private_key)
        # Only this key: not the ssh-agent, configuration or keys of the server's user.
        plain = {"agent_path": None, "config": None, "encryption_algs": CIPHERS}
        return {**user, "client_keys": [key], **plain}
    return {**user, "client_keys": [login.identity]} if login.identity else user


def _key_algorithms(expected: Sequence[str]) -> Sequence[str]:
    """Return the names of all host key algorithms, in the order in which to offer them.

    Those of the expected keys come first, so that the machine presents one of the expected keys.
    """
    from asyncssh.public_key import get_default_public_key_algs

    every = [name.decode() for name in get_default_public_key_algs()]
    kinds = {key.split()[0] for key in expected}
    return sorted(every, key=lambda name: name not in kinds and not ("ssh-rsa" in kinds and "rsa" in name))


async def _connect_socket(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    family, address = _parse_address(host, port) or await _resolve(host, port)
    reached = socket.socket(family, socket.SOCK_STREAM)
    reached.setblocking(False)
    try:
        await loop.sock_connect(reached, address)
        reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        reached.close()
        raise
    return reached


def _parse_address(host: str, port: int) -> "tuple[int, tuple[Any, ...]] | None":
    """Return (family, socket address) for an IP address; None for a host name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return (socket.AF_INET if version == 4 else socket.AF_INET6), (host, port)


async def _resolve(host: str, port: int) -> "tuple[int, tuple[Any, ...]]":
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = infos[0]
    return family, address


async def disconnect(connection: "Connection", within_s: float = 1) -> None:
    """Close the connection and all its channels at once, and wait at most `within_s` for the end."""
    connection.abort()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await connection.wait_closed()


def _host_key_changed(login: SshLogin, check: HostKeyCheck) -> HostKeyChanged:
    expected = ", ".join(fingerprint(key) for key in check.expected)
    return HostKeyChanged(
        f"{login.machine} ({login.host}:{login.port}) has the SSH host key {fingerprint(check.shown)}, "
        f"but {expected or 'another key'} is expected",
        hint="If the machine was reinstalled, remove the host from anygpu and add it again. If not, another "
        "machine may be answering: do not log in.",
        machine=login.machine,
        step="ssh",
    )


def _login_refused(login: SshLogin, error: Exception) -> SshRefused:
    who = f"{login.user}@{login.host}" if login.user else login.host
    return SshRefused(
        f"{login.machine} refused the SSH login as {who}: {_error_text(error)}",
        hint="Check the user name, and that the key is in ~/.ssh/authorized_keys on the machine.",
        machine=login.machine,
        step="ssh",
    )


def _unreachable(login: SshLogin, error: Exception) -> SshUnreachable:
    return SshUnreachable(
        f"{login.machine} ({login.host}:{login.port}) does not answer over SSH: {_error_text(error)}",
        hint="Check that the machine is on, its address and port, and the network.",
        machine=login.machine,
        step="ssh",
    )


def _error_text(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


async def open_tunnel(
    connection: "asyncssh.SSHClientConnection", target: tuple[str, int], machine: str
) -> int:
    """Open a reverse tunnel from a port of the machine to `target` (host and port). Return the port."""
    import asyncssh

    try:
        listener = await connection.create_server(
            lambda host, port: _forward(connection, target),
            "127.0.0.1",
            0,
        )
    except asyncssh.ChannelListenError as error:
        raise TunnelRefused(
            f"{machine}: its SSH server allows no reverse tunnel, over which the agent reaches the anygpu "
            f"server: {error}",
            hint="Set AllowTcpForwarding yes in its sshd_config, and remove `restrict` from "
            "~/.ssh/authorized_keys there.",
            machine=machine,
            step="tunnel",
        ) from error
    return listener.get_port()


async def _forward(connection: "asyncssh.SSHClientConnection", target: tuple[str, int]) -> "SSHForwarder":
    """Connect one channel of the reverse tunnel to `target`.

    Closes the channel if the SSH connection was lost meanwhile, because asyncssh does not do that.
    """
    import asyncssh

    forwarder = await connection.forward_connection(*target)
    if connection.is_closed():
        forwarder.close()
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the connection is lost")
    return forwarder
