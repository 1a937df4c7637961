"""Connect to a machine over SSH: login, host key check, keep-alive, reverse tunnel. Translates asyncssh's errors.

asyncssh takes half a second to import, so it is imported when the first machine is contacted.
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
    """Where to knock, as whom, and how the machine proves itself."""

    machine: str  # what people call it: the name in every message
    host: str
    port: int = 22
    user: str = ""
    private_key: str = field(
        default="", repr=False
    )  # OpenSSH format; empty: a file, or the person's own keys
    identity: str = ""  # a private key file of the person who runs the server
    host_keys: tuple[str, ...] = ()  # known beforehand; empty: pinned at first sight
    pin: str = ""  # under which name a key seen first is kept; empty: the address

    @property
    def pin_name(self) -> str:
        """Rented machines take over each other's addresses: they are pinned by attempt, boxes by address."""
        return self.pin or f"{self.host}-{self.port}"

    @property
    def uses_ssh_config(self) -> bool:
        """A box of the person's own, reached as their `ssh` would: their keys, agent and ~/.ssh/config."""
        return not self.private_key


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTiming:
    """Timeouts of SSH, in seconds. A machine is given up after `tries` tries and `patience_s`, whichever is later."""

    tries: int = 5
    retry_interval_s: float = 10
    connect_s: float = 15  # one try, from the first packet to the login
    command_s: float = 300
    bootstrap_s: float = 300  # from the first login to the agent
    keepalive_s: float = 5
    keepalive_misses: int = 3
    first_retry_s: float = 0.2
    first_reconnect_s: float = (
        0.8  # after a break: by then a provider has told which machines are gone for good
    )
    max_retry_s: float = 10
    max_handshakes: int = 16  # at one time: each is a few milliseconds of computing in the server's only loop

    @property
    def patience_s(self) -> float:
        return self.tries * self.retry_interval_s


DEFAULT_PORT = 22
# Processors have instructions for AES; asyncssh's first choice takes four times as long for what goes through tunnels.
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


class SshConnector:
    """Logs in to machines. One for many links: it bounds how many handshakes are computed at one time."""

    def __init__(self, pins: HostKeyStore, timing: SshTiming | None = None) -> None:
        self.pins = pins
        self.timing = timing or SshTiming()
        self._handshakes = asyncio.Semaphore(self.timing.max_handshakes)

    async def connect(self, login: SshLogin) -> "Connection":
        """A verified connection, or SshUnreachable, SshRefused or HostKeyChanged. Tries once."""
        import asyncssh

        expected = login.host_keys or self.pins.get(login.pin_name)
        check = HostKeyCheck(expected)
        try:
            connection = await self._open(login, check)
        except asyncssh.HostKeyNotVerifiable as error:
            raise _host_key_changed(login, check) from error
        except asyncssh.PermissionDenied as error:
            raise _login_refused(login, error) from error
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise SshRefused(f"{login.machine}: the private key cannot be used: {error}") from error
        except (OSError, TimeoutError, asyncssh.Error) as error:
            raise _unreachable(login, error) from error
        if not expected and check.shown not in self.pins.pin(login.pin_name, check.shown):
            connection.abort()
            raise _host_key_changed(login, check)
        return connection

    async def _open(self, login: SshLogin, check: "HostKeyCheck") -> "Connection":
        async with asyncio.timeout(self.timing.connect_s):
            if login.uses_ssh_config:  # the person's ~/.ssh/config may lead through another machine
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
            # The usual port is left out for boxes of one's own: ~/.ssh/config may name another.
            login.port if login.port != DEFAULT_PORT or not login.uses_ssh_config else (),
            client_factory=lambda: _make_client(check),
            known_hosts=([], [], []),  # so that every key is put to our own check
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
    """Remembers the key a machine showed, and whether it is one of those expected."""

    def __init__(self, expected: Sequence[str]) -> None:
        self.expected = tuple(expected)
        self.shown = ""

    def accepts(self, key: "asyncssh.SSHKey") -> bool:
        self.shown = _key_text(key)
        return not self.expected or self.shown in {" ".join(known.split()[:2]) for known in self.expected}


async def fetch_host_key(login: SshLogin, timeout_s: float = 15) -> str:
    """The host key a machine shows to whoever asks, without logging in."""
    import asyncssh

    try:
        async with asyncio.timeout(timeout_s):
            port = login.port if login.port != DEFAULT_PORT else ()
            key = await asyncssh.get_server_host_key(login.host, port)
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise _unreachable(login, error) from error
    if key is None:
        raise SshUnreachable(f"{login.machine} ({login.host}:{login.port}) shows no host key")
    return _key_text(key)


def fingerprint(key: str) -> str:
    """As `ssh-keygen -l` shows it."""
    import asyncssh

    return f"{key.split()[0]} {asyncssh.import_public_key(key).get_fingerprint()}"


def _key_text(key: "asyncssh.SSHKey") -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def _make_client(check: HostKeyCheck) -> "asyncssh.SSHClient":
    import asyncssh

    class Client(asyncssh.SSHClient):
        def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
            return check.accepts(key)

    return Client()


def _login_options(login: SshLogin) -> dict[str, Any]:
    import asyncssh

    user: dict[str, Any] = {"username": login.user} if login.user else {}
    if login.private_key:
        key = asyncssh.import_private_key(login.private_key)
        # Nothing of the person who runs the server takes part: no agent, no configuration, no other key.
        plain = {"agent_path": None, "config": None, "encryption_algs": CIPHERS}
        return {**user, "client_keys": [key], **plain}
    return {**user, "client_keys": [login.identity]} if login.identity else user


def _key_algorithms(expected: Sequence[str]) -> Sequence[str]:
    """Ask for the kind of key we know first: a machine has several, and shows the one asked for."""
    from asyncssh.public_key import get_default_public_key_algs

    every = [name.decode() for name in get_default_public_key_algs()]
    kinds = {key.split()[0] for key in expected}
    return sorted(every, key=lambda name: name not in kinds and not ("ssh-rsa" in kinds and "rsa" in name))


async def _connect_socket(host: str, port: int) -> socket.socket:
    """A connected socket. A machine that boots refuses at once and may answer a moment later."""
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
    """Providers give addresses, not names: no thread is needed to look one up."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return (socket.AF_INET if version == 4 else socket.AF_INET6), (host, port)


async def _resolve(host: str, port: int) -> "tuple[int, tuple[Any, ...]]":
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    return family, address


async def disconnect(connection: "Connection", within_s: float = 1) -> None:
    """At once, without asking the peer, and with everything that went through it closed."""
    connection.abort()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await connection.wait_closed()


def _host_key_changed(login: SshLogin, check: HostKeyCheck) -> HostKeyChanged:
    known = ", ".join(fingerprint(key) for key in check.expected)
    return HostKeyChanged(
        f"{login.machine} ({login.host}:{login.port}) shows the host key {fingerprint(check.shown)}, "
        f"but {known or 'another'} is known",
        hint="Somebody may be in between. If the machine was reinstalled, remove it and add it again.",
        machine=login.machine,
        step="ssh",
    )


def _login_refused(login: SshLogin, error: Exception) -> SshRefused:
    who = f"{login.user}@{login.host}" if login.user else login.host
    return SshRefused(
        f"{login.machine} refused the login as {who}: {_error_text(error)}",
        hint="Check the user name, and that the key is in ~/.ssh/authorized_keys there.",
        machine=login.machine,
        step="ssh",
    )


def _unreachable(login: SshLogin, error: Exception) -> SshUnreachable:
    return SshUnreachable(
        f"{login.machine} ({login.host}:{login.port}) does not answer over SSH: {_error_text(error)}",
        hint="Check that it is on, its address and port, and the network.",
        machine=login.machine,
        step="ssh",
    )


def _error_text(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)


async def open_tunnel(
    connection: "asyncssh.SSHClientConnection", target: tuple[str, int], machine: str
) -> int:
    """Port 0: the machine chooses a free one, so that a stale connection's cannot be in the way."""
    import asyncssh

    try:
        listener = await connection.create_server(
            lambda host, port: _forward(connection, target),
            "127.0.0.1",
            0,
        )
    except asyncssh.ChannelListenError as error:
        raise TunnelRefused(
            f"{machine}: its SSH server allows no reverse tunnel: {error}",
            hint="Set AllowTcpForwarding yes (and no `restrict` in authorized_keys) there.",
            machine=machine,
            step="tunnel",
        ) from error
    return listener.get_port()


async def _forward(connection: "asyncssh.SSHClientConnection", target: tuple[str, int]) -> "SSHForwarder":
    """asyncssh would leave the near end open if the connection is lost while that end is being made."""
    import asyncssh

    forwarder = await connection.forward_connection(*target)
    if connection.is_closed():
        forwarder.close()
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the connection is lost")
    return forwarder
