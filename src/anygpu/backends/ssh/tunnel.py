"""The reverse tunnel: a port of the machine's own loopback that leads to the server's agent listener."""

from typing import TYPE_CHECKING

from anygpu.backends.ssh.errors import TunnelRefused

if TYPE_CHECKING:
    import asyncssh
    from asyncssh.forward import SSHForwarder


async def opened(connection: "asyncssh.SSHClientConnection", target: tuple[str, int], machine: str) -> int:
    """Port 0: the machine chooses a free one, so that a stale connection's cannot be in the way."""
    import asyncssh

    try:
        listener = await connection.create_server(
            lambda host, port: _through(connection, target),
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


async def _through(connection: "asyncssh.SSHClientConnection", target: tuple[str, int]) -> "SSHForwarder":
    """asyncssh would leave the near end open if the connection is lost while that end is being made."""
    import asyncssh

    forwarder = await connection.forward_connection(*target)
    if connection.is_closed():
        forwarder.close()
        raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "the connection is lost")
    return forwarder
