"""One login over SSH: the host key checked, vendor errors turned into ours, a dead peer noticed.

asyncssh takes half a second to import, so it is imported when the first machine is dialled.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anygpu.backends.ssh.errors import HostKeyChanged, SshRefused, SshUnreachable
from anygpu.backends.ssh.login import Login, SshTiming
from anygpu.backends.ssh.pins import Pins

if TYPE_CHECKING:
    import asyncssh

    Connection = asyncssh.SSHClientConnection


DEFAULT_PORT = 22
# Processors have instructions for AES; asyncssh's first choice takes four times as long for what goes through tunnels.
CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


class Dialer:
    """Logs in to machines. One for many links: it bounds how many handshakes are computed at one time."""

    def __init__(self, pins: Pins, timing: SshTiming | None = None) -> None:
        self.pins = pins
        self.timing = timing or SshTiming()
        self._handshakes = asyncio.Semaphore(self.timing.handshakes)

    async def dial(self, login: Login) -> "Connection":
        """A verified connection, or SshUnreachable, SshRefused or HostKeyChanged. Tries once."""
        import asyncssh

        expected = login.host_keys or self.pins.known(login.pin_name)
        check = HostKeyCheck(expected)
        try:
            connection = await self._connected(login, check)
        except asyncssh.HostKeyNotVerifiable as error:
            raise _changed(login, check) from error
        except asyncssh.PermissionDenied as error:
            raise _refused(login, error) from error
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise SshRefused(f"{login.machine}: the private key cannot be used: {error}") from error
        except (OSError, TimeoutError, asyncssh.Error) as error:
            raise _unreachable(login, error) from error
        if not expected and check.seen not in self.pins.keep(login.pin_name, check.seen):
            connection.abort()
            raise _changed(login, check)
        return connection

    async def _connected(self, login: Login, check: "HostKeyCheck") -> "Connection":
        async with asyncio.timeout(self.timing.connect_s):
            if login.own:  # the person's ~/.ssh/config may lead through another machine
                return await self._shake_hands(login, check)
            reached = await _reached(login.host, login.port)
            try:
                async with self._handshakes:
                    return await self._shake_hands(login, check, sock=reached)
            except BaseException:
                reached.close()
                raise

    async def _shake_hands(self, login: Login, check: "HostKeyCheck", **how: Any) -> "Connection":
        import asyncssh

        return await asyncssh.connect(
            login.host,
            # The usual port is left out for boxes of one's own: ~/.ssh/config may name another.
            login.port if login.port != DEFAULT_PORT or not login.own else (),
            client_factory=lambda: _client(check),
            known_hosts=([], [], []),  # so that every key is put to our own check
            server_host_key_algs=_preferred(check.expected),
            keepalive_interval=self.timing.keepalive_s,
            keepalive_count_max=self.timing.keepalive_misses,
            compression_algs=["none"],
            preferred_auth="publickey",
            login_timeout=self.timing.connect_s,
            **_identity(login),
            **how,
        )


class HostKeyCheck:
    """Remembers the key a machine showed, and whether it is one of those expected."""

    def __init__(self, expected: Sequence[str]) -> None:
        self.expected = tuple(expected)
        self.seen = ""

    def accepts(self, key: "asyncssh.SSHKey") -> bool:
        self.seen = _plain(key)
        return not self.expected or self.seen in {" ".join(known.split()[:2]) for known in self.expected}


async def shown_key(login: Login, timeout_s: float = 15) -> str:
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
    return _plain(key)


def fingerprint(key: str) -> str:
    """As `ssh-keygen -l` shows it."""
    import asyncssh

    return f"{key.split()[0]} {asyncssh.import_public_key(key).get_fingerprint()}"


def _plain(key: "asyncssh.SSHKey") -> str:
    return " ".join(key.export_public_key().decode().split()[:2])


def _client(check: HostKeyCheck) -> "asyncssh.SSHClient":
    import asyncssh

    class Client(asyncssh.SSHClient):
        def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
            return check.accepts(key)

    return Client()


def _identity(login: Login) -> dict[str, Any]:
    import asyncssh

    user: dict[str, Any] = {"username": login.user} if login.user else {}
    if login.private_key:
        key = asyncssh.import_private_key(login.private_key)
        # Nothing of the person who runs the server takes part: no agent, no configuration, no other key.
        plain = {"agent_path": None, "config": None, "encryption_algs": CIPHERS}
        return {**user, "client_keys": [key], **plain}
    return {**user, "client_keys": [login.identity]} if login.identity else user


def _preferred(expected: Sequence[str]) -> Sequence[str]:
    """Ask for the kind of key we know first: a machine has several, and shows the one asked for."""
    from asyncssh.public_key import get_default_public_key_algs

    every = [name.decode() for name in get_default_public_key_algs()]
    kinds = {key.split()[0] for key in expected}
    return sorted(every, key=lambda name: name not in kinds and not ("ssh-rsa" in kinds and "rsa" in name))


async def _reached(host: str, port: int) -> socket.socket:
    """A connected socket. A machine that boots refuses at once and may answer a moment later."""
    loop = asyncio.get_running_loop()
    family, address = _numeric(host, port) or await _resolved(host, port)
    reached = socket.socket(family, socket.SOCK_STREAM)
    reached.setblocking(False)
    try:
        await loop.sock_connect(reached, address)
        reached.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        reached.close()
        raise
    return reached


def _numeric(host: str, port: int) -> "tuple[int, tuple[Any, ...]] | None":
    """Providers give addresses, not names: no thread is needed to look one up."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return (socket.AF_INET if version == 4 else socket.AF_INET6), (host, port)


async def _resolved(host: str, port: int) -> "tuple[int, tuple[Any, ...]]":
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, _, _, _, address = found[0]
    return family, address


async def hang_up(connection: "Connection", within_s: float = 1) -> None:
    """At once, without asking the peer, and with everything that went through it closed."""
    connection.abort()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await connection.wait_closed()


def _changed(login: Login, check: HostKeyCheck) -> HostKeyChanged:
    known = ", ".join(fingerprint(key) for key in check.expected)
    return HostKeyChanged(
        f"{login.machine} ({login.host}:{login.port}) shows the host key {fingerprint(check.seen)}, "
        f"but {known or 'another'} is known",
        hint="Somebody may be in between. If the machine was reinstalled, remove it and add it again.",
        machine=login.machine,
        step="ssh",
    )


def _refused(login: Login, error: Exception) -> SshRefused:
    who = f"{login.user}@{login.host}" if login.user else login.host
    return SshRefused(
        f"{login.machine} refused the login as {who}: {_said(error)}",
        hint="Check the user name, and that the key is in ~/.ssh/authorized_keys there.",
        machine=login.machine,
        step="ssh",
    )


def _unreachable(login: Login, error: Exception) -> SshUnreachable:
    return SshUnreachable(
        f"{login.machine} ({login.host}:{login.port}) does not answer over SSH: {_said(error)}",
        hint="Check that it is on, its address and port, and the network.",
        machine=login.machine,
        step="ssh",
    )


def _said(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
