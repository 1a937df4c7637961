"""Log in to rented machines, for the agent and for people.

The address and the host keys of a new machine are not known at first.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from anygpu.backends.contract import ShellLogin
from anygpu.backends.ssh.connection import SshConnector, SshLogin
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.backends.ssh.keys import HostKeyStore, attempt_key
from anygpu.backends.ssh.link import SshLink, reattach_request
from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.machines import OwnedMachines
from anygpu.backends.vm.options import VmTiming
from anygpu.backends.vm.provider import CloudMachine
from anygpu.errors import AnygpuError, BackendUnavailable

SSH = 22


class MachineAccess:
    """Creates SSH logins to the machine of an attempt, links to its agent, and shell logins for people."""

    def __init__(
        self,
        machines: OwnedMachines,
        *,
        user: str,
        port: int,
        notices: str,
        secret: bytes,
        agent_target: tuple[str, int],
        pins: HostKeyStore,
        timing: VmTiming,
    ) -> None:
        self._machines = machines
        self._user = user
        self._port = port
        self._notices = notices
        self._secret = secret
        self._agent_target = agent_target
        self._connector = SshConnector(pins, timing.ssh)
        self._timing = timing
        self._host_keys: dict[str, HostKeyLookup] = {}

    async def login(self, attempt: VmAttempt) -> SshLogin:
        machine = attempt.machine
        if machine is None or not machine.address:
            raise BackendUnavailable(
                f"The machine of the attempt {attempt.name} has no network address yet; it is asked for again"
            )
        return SshLogin(
            machine=attempt.name,
            host=machine.address,
            port=self._port_of(machine),
            user=self._user,
            private_key=attempt_key(self._secret, attempt.name).private_openssh,
            host_keys=await self._host_keys_of(machine),
            pin=f"{attempt.name}-{machine.id}",
        )

    def link(self, attempt: VmAttempt, on_change: Callable[[], None]) -> SshLink:
        return SshLink(
            lambda: self._login_when_port_open(attempt),
            attempt.launch or reattach_request(attempt.name),
            connector=self._connector,
            agent_target=self._agent_target,
            on_change=on_change,
            notices=self._notices,
            patience_s=self._lease_s(attempt) if attempt.from_earlier_process else None,
        )

    def _lease_s(self, attempt: VmAttempt) -> float:
        return (attempt.launch.lease_s if attempt.launch else 0) or self._timing.lease_s

    async def deliver(self, attempt: VmAttempt) -> None:
        """Send the reports that a dead agent left on its machine, and wait until they are sent."""
        courier = SshLink(
            lambda: self._login_when_port_open(attempt),
            attempt.launch or reattach_request(attempt.name),
            connector=self._connector,
            agent_target=self._agent_target,
            on_change=lambda: None,
            deliver=True,
        )
        courier.start()
        try:
            await courier.wait_ended()
        finally:
            await courier.stop()

    async def shell(self, attempt: VmAttempt) -> ShellLogin:
        login = await self.login(attempt)
        return ShellLogin(
            host=login.host,
            port=login.port,
            user=login.user,
            private_key=login.private_key,
            host_keys=self._connector.expected_host_keys(login),
        )

    def _port_of(self, machine: CloudMachine) -> int:
        return machine.port if machine.port != SSH else self._port

    async def _login_when_port_open(self, attempt: VmAttempt) -> SshLogin:
        """Return the login to the attempt's machine once its SSH port is open; raise `SshUnreachable` before.

        The provider is asked for the host keys only then, because a machine has none before.
        """
        machine = attempt.machine
        if machine is not None and machine.address and machine.id not in self._host_keys:
            await self._check_port(attempt.name, machine.address, self._port_of(machine))
        return await self.login(attempt)

    async def _check_port(self, name: str, host: str, port: int) -> None:
        try:
            async with asyncio.timeout(self._timing.ssh.connect_s):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as error:
            raise SshUnreachable(
                f"{name} ({host}:{port}) does not answer over SSH: {error or 'no answer in time'}",
                hint="Check that its image starts an SSH server, and that no firewall or security group blocks the "
                "port.",
            ) from error
        writer.close()

    async def _host_keys_of(self, machine: CloudMachine) -> tuple[str, ...]:
        lookup = self._host_keys.setdefault(machine.id, HostKeyLookup(asyncio.get_running_loop().time()))
        if lookup.keys is None:
            await self._fetch_host_keys(lookup, machine)
        if lookup.keys is None and lookup.waited_s() < self._timing.host_keys_timeout_s:
            raise SshUnreachable(
                f"The provider does not show the SSH host keys of the machine {machine.id} yet; the login is "
                "tried again"
            )
        return lookup.keys or ()

    async def _fetch_host_keys(self, lookup: "HostKeyLookup", machine: CloudMachine) -> None:
        """Ask the provider for the host keys of a machine, unless it was asked a moment ago.

        The pause between two calls grows with each call.
        """
        now = asyncio.get_running_loop().time()
        if now >= lookup.ask_at:
            lookup.ask_at = now + lookup.pause_s
            lookup.pause_s = min(2 * lookup.pause_s, self._timing.poll_medium_s)
            with contextlib.suppress(AnygpuError):
                lookup.keys = tuple(await self._machines.host_keys(machine))

    def forget(self, machine: CloudMachine) -> None:
        self._host_keys.pop(machine.id, None)


@dataclass(slots=True)
class HostKeyLookup:
    """The search for the host keys of a machine.

    `keys` is None while they are unknown, and empty if the provider never shows them.
    """

    since: float
    ask_at: float = float("-inf")
    pause_s: float = 0.5
    keys: tuple[str, ...] | None = None

    def waited_s(self) -> float:
        return asyncio.get_running_loop().time() - self.since
