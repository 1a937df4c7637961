"""Your own machines, over SSH. Needs no root and no Docker on them.

Lock files on a host reserve its GPUs, so that several users of anygpu can share the host.
"""

import asyncio
import contextlib
import getpass
import shlex
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from anygpu.backends.contract import (
    AccountStatus,
    HostReport,
    LaunchRequest,
    MachineState,
    NativeRequest,
    Observation,
    ShellLogin,
    node_name,
    split_node_name,
)
from anygpu.backends.gangs import combine_observations, node_launches
from anygpu.backends.host_gpus import machine_of_offer
from anygpu.backends.owner import owner_tag
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import RelayTransport
from anygpu.backends.ssh.bootstrap import bootstrap_command
from anygpu.backends.ssh.connection import SshConnector, SshLogin, SshTiming
from anygpu.backends.ssh.group import (
    attempt_handles,
    find_nodes,
    free_hosts,
    group_offers,
    node_handles,
)
from anygpu.backends.ssh.hosts import HostStatus, SshHost
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.link import LinkState, SlotRequest, SshLink, reattach_request
from anygpu.backends.ssh.offers import account_status, build_offers, cpu_slot_count, gpu_count, report_host
from anygpu.backends.ssh.options import SshOptions, split_address
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchError, LaunchRefused, NoCapacity
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
        relay=context.relays.choose(options.relay),
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
        relay: RelayTransport | None = None,
    ) -> None:
        self.name = name
        self.relay = relay
        self._options = options
        self._agent_target = agent_target
        self._on_change = on_change
        self._connector = SshConnector(pins, timing)
        # The label must not change: directories on the hosts carry the owner id.
        self._owner = owner_tag(secret, "owner of attempts on boxes")
        self._hosts = {host.name: host for host in self._make_hosts(options)}
        addresses = options.node_addresses or [host.login.host for host in self._hosts.values()]
        self._node_addresses = dict(zip(self._hosts, addresses, strict=True))
        self._gang_lock = asyncio.Lock()
        self._links: dict[str, SshLink] = {}
        self._changed_at: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Report the attempts that run on the hosts to `on_change`, so that they are probed immediately.

        Called after a restart of the server.
        """
        self._start_task(self._report_running())

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return one offer per host, or one per GPU model of a host with several.

        A job on several hosts gets one offer for all hosts with the same GPU.

        The offer of a host that does not answer has no free GPUs or CPUs, and contains the reason.
        """
        hosts = list(self._hosts.values())
        statuses = await asyncio.gather(*(host.recent_status() for host in hosts))
        offers = [
            offer
            for host, status in zip(hosts, statuses, strict=True)
            for offer in self._offers_of(host, status, need)
        ]
        return offers if need.nodes == 1 else group_offers(offers, need)

    def _offers_of(self, host: SshHost, status: HostStatus | None, need: Resources) -> list[Offer]:
        return build_offers(host, status, need, backend=self.name, options=self._options)

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Start the agent on the host of the offer, and return once the agent runs.

        From then on, the host can find the attempt by its name.
        """
        if launch.nodes > 1:
            return await self._launch_gang(launch, offer)
        host = self._hosts.get(machine_of_offer(offer.name))
        if host is None:
            raise LaunchRefused(
                f"The host {machine_of_offer(offer.name)!r} is no longer configured in the backend {self.name}",
                hint="No action is needed: the server chooses another machine. To use the host, add it again.",
            )
        await self._start_on(host, launch, offer)
        return Handle(name=launch.name, native={"box": host.name})

    async def _start_on(self, host: SshHost, launch: LaunchRequest, offer: Offer) -> None:
        link = self._links.get(launch.name)
        if link is None or link.state is LinkState.FAILED:
            link = self._start_link(host, launch, gpu_kind=offer.gpu_kind)
        await self._wait_ready(link, launch.name, host)
        self._changed_at[launch.name] = time.monotonic()
        host.outdate_status()

    async def _launch_gang(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Start an agent on each of several hosts, or on none.

        Gangs start one after the other, and take their hosts in the same order. So of two gangs that need the same
        hosts one gets them all, also if they belong to different servers.
        """
        async with self._gang_lock:
            hosts = await self._choose_hosts(launch, offer)
            handle = Handle(name=launch.name, native={"hosts": [host.name for host in hosts]})
            try:
                for host, node in zip(hosts, node_launches(launch), strict=True):
                    await self._start_on(host, node, offer)
            except LaunchError:
                await self.terminate(handle)  # if this fails, it is not certain that nothing runs
                raise
            return handle

    async def _choose_hosts(self, launch: LaunchRequest, offer: Offer) -> list[SshHost]:
        """Return a host for each node. Hosts on which an interrupted launch has started a node keep it."""
        statuses = await self._check_hosts(list(self._hosts.values()), time.monotonic())
        answers = {name: status for name, status in statuses.items() if isinstance(status, HostStatus)}
        running = find_nodes(launch.name, answers)
        offers = {
            name: self._offers_of(self._hosts[name], status, launch.resources)
            for name, status in answers.items()
            if name not in running.values()
        }
        free = free_hosts(offers, launch, offer.gpu_kind)
        missing = [node for node in range(launch.nodes) if node not in running]
        if len(free) < len(missing):
            if running:
                await self.terminate(Handle(name=launch.name))
            raise NoCapacity(
                f"{len(free) + len(running)} hosts of {self.name} that are large enough are free, and the job needs "
                f"{launch.nodes} at the same time, so it was started on none",
                hint="No action is needed: the job waits until enough are free.",
            )
        chosen = running | dict(zip(missing, free, strict=False))
        return [self._hosts[chosen[node]] for node in range(launch.nodes)]

    async def probe(self, handle: Handle) -> Observation:
        if "hosts" in handle.native:
            nodes = node_handles(handle)
            return combine_observations(await asyncio.gather(*(self.probe(node) for node in nodes)))
        link = self._links.get(handle.name)
        if link is not None and link.state is LinkState.UP:
            return Observation(state=MachineState.RUNNING, detail=link.detail)
        if link is not None and link.state is LinkState.FAILED:
            return Observation(state=MachineState.EXITED, detail=link.detail, failure=link.failure)
        if link is not None and link.state in STARTING_STATES:
            return Observation(state=MachineState.PENDING, detail=link.detail)
        return await self._find_attempt(handle, link)

    async def terminate(self, handle: Handle) -> None:
        if "hosts" in handle.native:
            await asyncio.gather(*(self.terminate(node) for node in node_handles(handle)))
            return
        await self._drop_link(handle.name)
        if not handle.native:
            await self._terminate_further_nodes(handle.name)
        self._changed_at[handle.name] = time.monotonic()
        hosts = self._hosts_of(handle)
        request = {"do": "kill", "target": handle.name}
        answers = await asyncio.gather(*(host.request(request) for host in hosts), return_exceptions=True)
        self._changed_at[handle.name] = time.monotonic()
        for host in hosts:
            host.outdate_status()
        _require_terminated(handle.name, answers)

    async def _terminate_further_nodes(self, name: str) -> None:
        """End the nodes 1, 2, … of an attempt of which only the name is known."""
        for link_name in [each for each in self._links if split_node_name(each)[0] == name]:
            await self._drop_link(link_name)
        statuses = await self._check_hosts(list(self._hosts.values()), time.monotonic())
        answers = {host: status for host, status in statuses.items() if isinstance(status, HostStatus)}
        further = {node: host for node, host in find_nodes(name, answers).items() if node}
        for node, host in further.items():
            await self.terminate(Handle(name=node_name(name, node), native={"box": host}))

    async def inventory(self) -> Sequence[Handle]:
        """List the attempts that run on the hosts. An attempt on several hosts is listed once."""
        statuses = await self._check_hosts(list(self._hosts.values()), newer_than=time.monotonic())
        places = [
            (name, host)
            for host, status in statuses.items()
            if isinstance(status, HostStatus)
            for name in status.attempt_names
        ]
        return attempt_handles(places)

    async def deliver(self, handle: Handle) -> None:
        """Start to send the reports that a dead agent left on its host, in the background."""
        if "hosts" in handle.native:
            for node in node_handles(handle):
                await self.deliver(node)
            return
        for host in self._hosts_of(handle):
            link = self._make_link(host, reattach_request(handle.name), lambda: None, deliver=True)
            self._start_task(_run_delivery(link))

    async def check(self) -> AccountStatus:
        statuses = await self._check_hosts(list(self._hosts.values()), newer_than=time.monotonic())
        return account_status({name: _status_or_error(status) for name, status in statuses.items()})

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        """Show the command of the SSH connection, and the request that it reads. Nothing is sent.

        For a job on several hosts, these are of node 0 on one of them.
        """
        hosts = [self._hosts.get(machine_of_offer(offer.name)), *self._hosts.values()]
        host = next(each for each in hosts if each is not None)
        link = self._make_link(host, launch.without_secrets(), lambda: None, gpu_kind=offer.gpu_kind)
        user = f"{host.login.user}@" if host.login.user else ""
        address = f"-p {host.login.port} {user}{host.login.host}"
        return [
            NativeRequest(
                title=f"command on {host.name} over SSH",
                language="sh",
                text=f"ssh {address} {shlex.quote(bootstrap_command(host.python))}\n",
            ),
            NativeRequest.of_json(
                "request to the agent, on the command's standard input",
                link.start_request("(the address of the tunnel to the server)"),
            ),
        ]

    async def shell(self, handle: Handle) -> ShellLogin:
        if "hosts" in handle.native:
            return await self.shell(node_handles(handle)[0])
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
            for node in status.attempt_names if isinstance(status, HostStatus) else ():
                if node == handle.name or (not handle.native and split_node_name(node)[0] == handle.name):
                    return self._observe_running(node, self._hosts[name], self._links.get(node))
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

    def _start_link(self, host: SshHost, launch: LaunchRequest, *, gpu_kind: str = "") -> SshLink:
        link = self._make_link(host, launch, lambda: self._link_changed(launch.name), gpu_kind=gpu_kind)
        self._links[launch.name] = link
        link.start()
        return link

    def _link_changed(self, name: str) -> None:
        """Handle a change of the connection to an attempt's agent: note the time, and call `on_change`.

        Statuses of the host that were requested before this time are no longer used for the attempt.
        """
        self._changed_at[name] = time.monotonic()
        self._on_change(split_node_name(name)[0])

    def _make_link(
        self,
        host: SshHost,
        launch: LaunchRequest,
        on_change: Callable[[], None],
        *,
        gpu_kind: str = "",
        deliver: bool = False,
    ) -> SshLink:
        async def login() -> SshLogin:
            return host.login

        slots = SlotRequest(
            gpus=gpu_count(launch.resources),
            gpu_kind=gpu_kind,
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
            node_address=self._node_addresses[host.name],
            tunnel=self.relay is None,
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
