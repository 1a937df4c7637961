"""Several real hosts for one attempt: all of them are taken or none, also if other servers take hosts meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from anygpu.agent.host import processes
from anygpu.backends.contract import LaunchRequest, MachineState, node_name
from anygpu.backends.ssh.backend import SshBackend
from anygpu.backends.ssh.connection import SshTiming
from anygpu.backends.ssh.hosts import SshHost
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.options import SshOptions
from anygpu.errors import NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import new_launch, wait_for_state, wait_until
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

TIMING = SshTiming(tries=5, retry_interval_s=0.2, connect_s=30, keepalive_s=5)
NODES = 2


class WatchedBackend(SshBackend):
    """A backend in which something happens between the choice of the hosts and the start of the first node."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def _choose_hosts(self, launch: LaunchRequest, offer: Offer) -> list[SshHost]:
        hosts = await super()._choose_hosts(launch, offer)
        if self.meanwhile is not None:
            await self.meanwhile()
        return hosts


class Lab:
    """Two hosts with one CPU slot each, and the servers that share them."""

    def __init__(self, root: Path, listener: AgentListener, hosts: list[SshTestHost]) -> None:
        self.root, self.listener, self.hosts = root, listener, hosts
        self.agent_url = listener.url
        self.servers: list[WatchedBackend] = []

    @property
    def backend(self) -> SshBackend:
        """The backend of the newest server."""
        return self.servers[-1]

    def server(self, secret: str) -> WatchedBackend:
        """Return the backend of the server with this secret."""
        options = SshOptions(
            hosts=tuple(f"{host.user}@127.0.0.1:{host.port}" for host in self.hosts),
            private_key=self.hosts[0].key.private_openssh,
            cpus=1,
        )
        backend = WatchedBackend(
            "lab",
            options,
            secret=secret.encode(),
            agent_target=("127.0.0.1", int(self.agent_url.rpartition(":")[2])),
            pins=HostKeyStore(self.root / "pins"),
            timing=TIMING,
        )
        self.servers.append(backend)
        return backend

    def count_agents(self) -> int:
        return len(self.listener.claims)

    def gang(self, number: int) -> LaunchRequest:
        return replace(new_launch(self, number), nodes=NODES, resources=Resources(nodes=NODES, cpus=1))

    def single(self, number: int) -> LaunchRequest:
        return replace(self.gang(number), nodes=1, resources=Resources(cpus=1))

    def running(self, launch: LaunchRequest) -> list[int]:
        """Return the nodes of an attempt that have processes."""
        names = processes.processes_by_attempt()
        return [node for node in range(NODES) if names.get(node_name(launch.name, node))]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(AgentListener({"shell": "sleep 1000"}))
        hosts = [
            await stack.enter_async_context(open_ssh_host(BEST_SERVER, tmp_path / f"host{number}"))
            for number in range(NODES)
        ]
        lab = Lab(tmp_path, listener, hosts)
        yield lab
        for backend in lab.servers:
            await backend.close()
        for number in (1, 2, 3):
            for node in range(NODES):
                processes.kill_attempt(node_name(new_launch(lab, number).name, node))


async def group_offer(backend: SshBackend) -> Offer:
    [offer] = await backend.offers(Resources(nodes=NODES, cpus=1))
    return offer


async def host_offer(backend: SshBackend, number: int) -> Offer:
    """Return the offer of one host, once it is free."""
    async with asyncio.timeout(60):
        while True:
            offers = await backend.offers(Resources(cpus=1))
            if offers[number].free:
                return offers[number]
            await asyncio.sleep(0.1)


async def test_of_two_servers_that_want_the_same_hosts_one_gets_all_and_the_other_none(lab: Lab) -> None:
    servers = [lab.server("first"), lab.server("second")]
    both_have_chosen = asyncio.Barrier(2)
    for server in servers:
        server.meanwhile = both_have_chosen.wait
    launches = [lab.gang(1), lab.gang(2)]
    offers = [await group_offer(server) for server in servers]
    started = [
        server.launch(launch, offer) for server, launch, offer in zip(servers, launches, offers, strict=True)
    ]
    results = await asyncio.gather(*started, return_exceptions=True)
    [winner] = [number for number, result in enumerate(results) if isinstance(result, Handle)]
    loser = 1 - winner
    assert isinstance(results[loser], NoCapacity)
    await wait_until(lambda: lab.running(launches[winner]) == [0, 1])
    await wait_until(lambda: lab.running(launches[loser]) == [])
    handle = results[winner]
    assert isinstance(handle, Handle)
    await servers[winner].terminate(handle)
    await wait_until(lambda: lab.running(launches[winner]) == [])
    servers[loser].meanwhile = None
    again = lab.gang(3)
    await servers[loser].launch(again, await group_offer(servers[loser]))
    await wait_until(lambda: lab.running(again) == [0, 1])


async def test_a_node_that_has_started_is_ended_if_the_next_one_gets_no_host(lab: Lab) -> None:
    server, other = lab.server("ours"), lab.server("other")
    gang, single = lab.gang(1), lab.single(2)
    second_host = await host_offer(other, 1)
    server.meanwhile = lambda: other.launch(single, second_host)
    with pytest.raises(NoCapacity):
        await server.launch(gang, await group_offer(server))
    assert list(lab.hosts[0].home.glob(f".anygpu/attempts/*/{gang.name}/ticket.json")), "node 0 was started"
    await wait_until(lambda: lab.running(gang) == [])
    assert lab.running(single) == [0]
    assert await server.inventory() == []


@pytest.mark.parametrize("second_is_free", [True, False], ids=["completed", "ended"])
async def test_a_launch_that_was_interrupted_after_its_first_node_is_completed_or_ended(
    lab: Lab, second_is_free: bool
) -> None:
    gang, single = lab.gang(1), lab.single(2)
    before = lab.server("ours")
    await before.launch(lab.single(1), await host_offer(before, 0))  # as node 0 is started
    await wait_until(lambda: lab.running(gang) == [0])
    await wait_until(lambda: lab.count_agents() == 1)
    await before.close()
    other = lab.server("other")
    if not second_is_free:
        await other.launch(single, await host_offer(other, 1))
    restarted = lab.server("ours")
    offer = await group_offer(restarted)
    if second_is_free:
        handle = await restarted.launch(gang, offer)
        await wait_until(lambda: lab.count_agents() == 2)
        assert lab.running(gang) == [0, 1]
        await wait_for_state(lab, handle, MachineState.RUNNING)
        await asyncio.sleep(0.5)
        assert lab.count_agents() == 2, "node 0 was not started again"
    else:
        with pytest.raises(NoCapacity, match="it was started on none"):
            await restarted.launch(gang, offer)
        await wait_until(lambda: lab.running(gang) == [])
        assert lab.running(single) == [0]
