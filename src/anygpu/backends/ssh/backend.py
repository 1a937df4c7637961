"""A backend for the user's own machines, over SSH. Needs no root and no Docker on them.

Lock files on a host reserve its GPUs, so that several users of anygpu can share the host.
"""

import asyncio
import contextlib
import getpass
import hashlib
import hmac
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from anygpu.backends.contract import (
    AccountStatus,
    HostReport,
    LaunchRequest,
    MachineState,
    Observation,
    ShellLogin,
)
from anygpu.backends.registry import BackendContext
from anygpu.backends.ssh.connection import SshConnector, SshLogin, SshTiming
from anygpu.backends.ssh.hosts import HostStatus, SshHost
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.link import LinkState, SlotRequest, SshLink, reattach_request
from anygpu.backends.ssh.offers import account_status, build_offer, cpu_slot_count, gpu_count, report_host
from anygpu.backends.ssh.options import SshOptions, split_address
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchRefused
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

LAUNCH_TIMEOUT_S = 120.0
DELIVERY_TIMEOUT_S = 3_600.0
Options = SshOptions  # the registry finds the options by this name
STARTING_STATES = (LinkState.CONNECTING, LinkState.BOOTSTRAPPING, LinkState.STARTING)


async def open_backend(name: str, options: SshOptions, context: BackendContext) -> "SshBackend":
    opened = SshBackend(
        name,
        options,
        secret=context.secret,
        agent_target=context.agent_target,
        pins=HostKeyStore(context.pins),
        on_change=context.on_change,
    )
    opened.start()
    return opened


class SshBackend:
    """Runs attempts on a fixed set of hosts.

    If it is not known on which host an attempt runs, all hosts are asked.
    """

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        options: SshOptions,
        *,
        secret: bytes,
        agent_target: tuple[str, int],
        pins: HostKeyStore,
        on_change: Callable[[str], None] = lambda name: None,
        timing: SshTiming | None = None,
    ) -> None:
        self.name = name
        self._options = options
        self._agent_target = agent_target
        self._on_change = on_change
        self._connector = SshConnector(pins, timing)
        # The label must not change: directories on the hosts carry the owner id.
        self._owner = hmac.new(secret, b"owner of attempts on boxes", hashlib.sha256).hexdigest()[:12]
        self._hosts = {host.name: host for host in self._make_hosts(options)}
        self._links: dict[str, SshLink] = {}
        self._changed_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Report the attempts that run on the hosts to `on_change`, so that they are probed immediately.

        Called after a restart of the server.
        """
        self._start_task(self._report_running())

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return one offer per host.

        The offer of a host that does not answer has no free GPUs or CPUs, and contains the reason.
        """
        hosts = list(self._hosts.values())
        statuses = await asyncio.gather(*(host.recent_status() for host in hosts))
        return [
            build_offer(host, status, need, backend=self.name, options=self._options)
            for host, status in zip(hosts, statuses, strict=True)
        ]

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Start the agent on the host of the offer, and return once the agent runs.

        From then on, the host can find the attempt by its name.
        """
        host = self._hosts.get(offer.name)
        if host is None:
            raise LaunchRefused(
                f"The host {offer.name!r} is no longer configured in the backend {self.name}",
                hint="No action is needed: the server chooses another machine. To use the host, add it again.",
            )
        link = self._links.get(launch.name)
        if link is None or link.state is LinkState.FAILED:
            link = self._start_link(host, launch)
        await self._wait_ready(link, launch.name, host)
        self._changed_at[launch.name] = time.monotonic()
        return Handle(name=launch.name, native={"box": host.name})

    async def probe(self, handle: Handle) -> Observation:
        link = self._links.get(handle.name)
        if link is not None and link.state is LinkState.UP:
            return Observation(state=MachineState.RUNNING, detail=link.detail)
        if link is not None and link.state is LinkState.FAILED:
            return Observation(state=MachineState.EXITED, detail=link.detail, failure=link.failure)
        if link is not None and link.state in STARTING_STATES:
            return Observation(state=MachineState.PENDING, detail=link.detail)
        return await self._find_attempt(handle, link)

    async def terminate(self, handle: Handle) -> None:
        link = self._links.pop(handle.name, None)
        if link is not None:
            await link.stop()
        self._changed_at[handle.name] = time.monotonic()
        hosts = self._hosts_of(handle)
        request = {"do": "kill", "target": handle.name}
        answers = await asyncio.gather(*(host.request(request) for host in hosts), return_exceptions=True)
        self._changed_at[handle.name] = time.monotonic()
        _require_terminated(handle.name, answers)

    async def inventory(self) -> Sequence[Handle]:
        statuses = await self._check_hosts(list(self._hosts.values()), newer_than=time.monotonic())
        return [
            Handle(name=name, native={"box": host})
            for host, status in statuses.items()
            if isinstance(status, HostStatus)
            for name in status.attempt_names
        ]

    async def deliver(self, handle: Handle) -> None:
        """Start to send the reports that a dead agent left on its host, in the background."""
        for host in self._hosts_of(handle):
            link = self._make_link(host, reattach_request(handle.name), lambda: None, deliver=True)
            self._start_task(_run_delivery(link))

    async def check(self) -> AccountStatus:
        statuses = await self._check_hosts(list(self._hosts.values()), newer_than=time.monotonic())
        return account_status({name: _status_or_error(status) for name, status in statuses.items()})

    async def shell(self, handle: Handle) -> ShellLogin:
        for host in self._hosts_of(handle):
            if len(self._hosts) == 1 or handle.name in (await host.check()).attempt_names:
                return self._shell(host.login)
        raise BackendUnavailable(
            f"No host of the backend {self.name} runs the attempt {handle.name}. If its host was removed, add "
            "it again."
        )

    async def hosts(self) -> Sequence[HostReport]:
        """Describe each host by its last status, which is asked again if it is old."""
        hosts = list(self._hosts.values())
        statuses = await asyncio.gather(*(host.recent_status() for host in hosts))
        return [report_host(host, status) for host, status in zip(hosts, statuses, strict=True)]

    async def close(self) -> None:
        """Disconnect from all hosts. The agents keep running."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(
            *self._tasks, *(link.stop() for link in self._links.values()), return_exceptions=True
        )
        await asyncio.gather(*(host.close() for host in self._hosts.values()))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_running(self) -> None:
        for handle in await self.inventory():
            self._on_change(handle.name)

    # -- hosts ------------------------------------------------------------------------------------------------

    def _make_hosts(self, options: SshOptions) -> Sequence[SshHost]:
        how: dict[str, Any] = {"owner": self._owner, "cpu_count": options.cpus, "python": options.python}
        logins = [self._login(address) for address in options.addresses]
        return [SshHost(login, self._connector, **how) for login in logins]

    def _login(self, address: str) -> SshLogin:
        user, address_host, port = split_address(address)
        alone = len(self._options.addresses) == 1
        return SshLogin(
            machine=self.name if alone else address,
            host=address_host,
            port=port,
            user=user,
            private_key=self._options.private_key.get_secret_value(),
            identity=self._options.identity,
            host_keys=self._options.host_keys,
        )

    def _shell(self, login: SshLogin) -> ShellLogin:
        return ShellLogin(
            host=login.host,
            port=login.port,
            user=login.user or getpass.getuser(),  # the default of ssh
            private_key="",  # never the server's key: people log in with their own
            host_keys=self._connector.expected_host_keys(login),
        )

    def _hosts_of(self, handle: Handle) -> Sequence[SshHost]:
        """Return the host on which an attempt runs; all hosts if it is not known on which."""
        chosen = handle.native.get("box")
        if chosen is None:
            return list(self._hosts.values())
        if chosen not in self._hosts:
            raise BackendUnavailable(
                f"The attempt {handle.name} runs on {chosen}, which is no longer a host of the backend "
                f"{self.name}. Add the host again."
            )
        return [self._hosts[chosen]]

    async def _check_hosts(
        self, hosts: Sequence[SshHost], newer_than: float
    ) -> dict[str, HostStatus | BaseException]:
        statuses = await asyncio.gather(*(host.check(newer_than) for host in hosts), return_exceptions=True)
        return {host.name: status for host, status in zip(hosts, statuses, strict=True)}

    async def _find_attempt(self, handle: Handle, link: SshLink | None) -> Observation:
        """Ask the hosts whether the attempt still runs. Raise if a host that may run it does not answer."""
        newer_than = max(self._changed_at.get(handle.name, 0.0), time.monotonic() - 1)
        statuses = await self._check_hosts(self._hosts_of(handle), newer_than)
        for name, status in statuses.items():
            if isinstance(status, HostStatus) and handle.name in status.attempt_names:
                return self._observe_running(handle.name, self._hosts[name], link)
        silent = [status for status in statuses.values() if not isinstance(status, HostStatus)]
        if silent:
            raise silent[0]
        await self._drop_link(handle.name)
        return Observation(state=MachineState.GONE, detail="no process of the attempt runs on the host")

    def _observe_running(self, name: str, host: SshHost, link: SshLink | None) -> Observation:
        if link is not None and link.state is LinkState.EXITED:
            return Observation(
                state=MachineState.EXITED, detail=f"{link.detail}; some processes of the job still run"
            )
        if link is None:
            self._start_link(host, reattach_request(name))
        return Observation(state=MachineState.RUNNING, detail=f"the agent runs on {host.name}; reconnecting")

    # -- links ------------------------------------------------------------------------------------------------

    def _start_link(self, host: SshHost, launch: LaunchRequest) -> SshLink:
        link = self._make_link(host, launch, lambda: self._link_changed(launch.name))
        self._links[launch.name] = link
        link.start()
        return link

    def _link_changed(self, name: str) -> None:
        """Handle a change of the connection to an attempt's agent: note the time, and call `on_change`.

        Statuses of the host that were requested before this time are no longer used for the attempt.
        """
        self._changed_at[name] = time.monotonic()
        self._on_change(name)

    def _make_link(
        self, host: SshHost, launch: LaunchRequest, on_change: Callable[[], None], *, deliver: bool = False
    ) -> SshLink:
        async def login() -> SshLogin:
            return host.login

        slots = SlotRequest(
            gpus=gpu_count(launch.resources),
            cpus=cpu_slot_count(launch.resources),
            cpu_count=host.cpu_count,
            owner=self._owner,
        )
        return SshLink(
            login,
            launch,
            connector=self._connector,
            agent_target=self._agent_target,
            on_change=on_change,
            share=slots,
            python=host.python,
            booting=False,
            deliver=deliver,
        )

    async def _wait_ready(self, link: SshLink, name: str, host: SshHost) -> None:
        try:
            async with asyncio.timeout(LAUNCH_TIMEOUT_S):
                state = await link.wait_ready()
        except TimeoutError as error:
            await self._drop_link(name)
            text = (
                f"The host {host.name} did not start the agent within {LAUNCH_TIMEOUT_S:g} s: {link.detail}. "
                "Check the load of the host and the network."
            )
            raise BackendUnavailable(text) from error
        if state is LinkState.FAILED and link.error is not None:
            await self._drop_link(name)
            raise link.error
        if state is LinkState.STOPPED:
            raise BackendUnavailable(
                f"The attempt {name} was stopped while it was starting on {host.name}; no action is needed"
            )

    async def _drop_link(self, name: str) -> None:
        link = self._links.pop(name, None)
        if link is not None:
            await link.stop()


async def _run_delivery(link: SshLink) -> None:
    link.start()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                await link.wait_ended()
    finally:
        await link.stop()


def _require_terminated(name: str, answers: Sequence[dict[str, Any] | BaseException]) -> None:
    """Raise unless it is certain that the attempt has ended.

    It is certain if a host confirms the end, or if every host answers that it does not know the attempt.
    """
    owners = [answer for answer in answers if isinstance(answer, dict) and answer["known"]]
    if any(not answer["gone"] for answer in owners):
        raise BackendUnavailable(
            f"Processes of the attempt {name} on its host still run after SIGKILL. They may be waiting for a "
            "device; if they stay, restart the host."
        )
    silent = [answer for answer in answers if isinstance(answer, BaseException)]
    if silent and not owners:
        raise silent[0]


def _status_or_error(status: HostStatus | BaseException) -> HostStatus | str:
    if isinstance(status, HostStatus):
        return status
    return str(status) if isinstance(status, AnygpuError) else repr(status)
