"""How a rented machine is reached: a login made anew for each try, since its address and host keys come late."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from anygpu.backends.contract import Shell
from anygpu.backends.ssh.connection import Dialer
from anygpu.backends.ssh.errors import SshUnreachable
from anygpu.backends.ssh.keys import attempt_key
from anygpu.backends.ssh.link import Link, known_by_name
from anygpu.backends.ssh.login import Login
from anygpu.backends.ssh.pins import Pins
from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.owned import OwnedMachines
from anygpu.backends.vm.provider import Machine
from anygpu.backends.vm.timing import VmTiming
from anygpu.errors import AnygpuError, BackendUnavailable

SSH = 22


class Reach:
    """Makes logins, links and shells for attempts."""

    def __init__(
        self,
        machines: OwnedMachines,
        *,
        user: str,
        port: int,
        notices: str,
        secret: bytes,
        agent_target: tuple[str, int],
        pins: Pins,
        timing: VmTiming,
    ) -> None:
        self._machines = machines
        self._user = user
        self._port = port
        self._notices = notices
        self._secret = secret
        self._agent_target = agent_target
        self._pins = pins
        self._dialer = Dialer(pins, timing.ssh)
        self._timing = timing
        self._host_keys: dict[str, HostKeys] = {}

    async def login(self, attempt: VmAttempt) -> Login:
        machine = attempt.machine
        if machine is None or not machine.address:
            raise BackendUnavailable(f"the machine of {attempt.name} has no address")
        return Login(
            machine=attempt.name,
            host=machine.address,
            port=self._port_of(machine),
            user=self._user,
            private_key=attempt_key(self._secret, attempt.name).private_openssh,
            host_keys=await self._keys_of(machine),
            pin=f"{attempt.name}-{machine.id}",
        )

    def link(self, attempt: VmAttempt, on_change: Callable[[], None]) -> Link:
        return Link(
            lambda: self._login_when_open(attempt),
            attempt.launch or known_by_name(attempt.name),
            dialer=self._dialer,
            agent_target=self._agent_target,
            on_change=on_change,
            notices=self._notices,
            patience_s=self._lease_s(attempt) if attempt.inherited else None,
        )

    def _lease_s(self, attempt: VmAttempt) -> float:
        return (attempt.launch.lease_s if attempt.launch else 0) or self._timing.lease_s

    async def deliver(self, attempt: VmAttempt) -> None:
        """Send what a dead agent left on its machine; returns when it is sent."""
        courier = Link(
            lambda: self._login_when_open(attempt),
            attempt.launch or known_by_name(attempt.name),
            dialer=self._dialer,
            agent_target=self._agent_target,
            on_change=lambda: None,
            deliver=True,
        )
        courier.start()
        try:
            await courier.ended()
        finally:
            await courier.stop()

    async def shell(self, attempt: VmAttempt) -> Shell:
        login = await self.login(attempt)
        return Shell(
            host=login.host,
            port=login.port,
            user=login.user,
            private_key=login.private_key,
            host_keys=login.host_keys or self._pins.known(login.pin_name),
        )

    def _port_of(self, machine: Machine) -> int:
        return machine.port if machine.port != SSH else self._port

    async def _login_when_open(self, attempt: VmAttempt) -> Login:
        """A machine whose SSH port is closed has printed no host keys yet: the provider need not be asked."""
        machine = attempt.machine
        if machine is not None and machine.address and machine.id not in self._host_keys:
            await self._knock(attempt.name, machine.address, self._port_of(machine))
        return await self.login(attempt)

    async def _knock(self, name: str, host: str, port: int) -> None:
        try:
            async with asyncio.timeout(self._timing.ssh.connect_s):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError) as error:
            raise SshUnreachable(
                f"{name} ({host}:{port}) does not answer over SSH: {error or 'no answer in time'}",
                hint="Its image may run no SSH server, or a firewall may be in between.",
            ) from error
        writer.close()

    async def _keys_of(self, machine: Machine) -> tuple[str, ...]:
        known = self._host_keys.setdefault(machine.id, HostKeys(asyncio.get_running_loop().time()))
        if known.keys is None:
            await self._ask(known, machine)
        if known.keys is None and known.waited_s() < self._timing.host_keys_s:
            raise SshUnreachable(f"the provider does not show the host keys of {machine.id} yet")
        return known.keys or ()

    async def _ask(self, known: "HostKeys", machine: Machine) -> None:
        """Console output comes late, and each question costs a call: not asked again at once."""
        now = asyncio.get_running_loop().time()
        if now >= known.ask_at:
            known.ask_at = now + known.pause_s
            known.pause_s = min(2 * known.pause_s, self._timing.doubt_every_s)
            with contextlib.suppress(AnygpuError):
                known.keys = tuple(await self._machines.host_keys(machine))

    def forget(self, machine: Machine) -> None:
        self._host_keys.pop(machine.id, None)


@dataclass(slots=True)
class HostKeys:
    """What the provider says of a machine's host keys: nothing yet, or what they are, or that it does not know."""

    since: float
    ask_at: float = float("-inf")
    pause_s: float = 0.5
    keys: tuple[str, ...] | None = None

    def waited_s(self) -> float:
        return asyncio.get_running_loop().time() - self.since
