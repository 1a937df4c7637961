"""Boxes of one's own: the backend contract over a real SSH server, with real agents behind a real tunnel."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from anygpu.agent.host import processes
from anygpu.backends.contract import MachineState, SupportsAccountCheck, SupportsDelivery, SupportsShell
from anygpu.backends.ssh.backend import SshBackend
from anygpu.backends.ssh.connection import SshTiming
from anygpu.backends.ssh.errors import HostKeyChanged, SshRefused
from anygpu.backends.ssh.keys import HostKeyStore, KeyPair, attempt_key
from anygpu.backends.ssh.options import SshOptions
from anygpu.errors import BackendUnavailable, NoCapacity
from anygpu.events.offers import Handle
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener
from anygpu.testing.servers.cuttable_proxy import CuttableProxy
from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, free_port, open_ssh_host

QUICK = SshTiming(tries=2, retry_interval_s=0.1, connect_s=5, keepalive_s=1, max_retry_s=0.4)


class SshPlace:
    def __init__(self, root: Path, listener: AgentListener, box: SshTestHost, wire: CuttableProxy) -> None:
        self.root = root
        self.listener = listener
        self.agent_url = listener.url
        self.box, self.wire = box, wire
        self.changes: list[str] = []
        self.backends: list[SshBackend] = []
        self.backend = self.fresh_backend()

    def fresh_backend(
        self, hosts: Sequence[str] = (), secret: bytes = b"one server's secret", key: KeyPair | None = None
    ) -> SshBackend:
        ours = f"{self.box.user}@127.0.0.1:{self.wire.port}"
        options = SshOptions(hosts=(ours, *hosts), private_key=(key or self.box.key).private_openssh, cpus=2)
        made = SshBackend(
            "boxes",
            options,
            secret=secret,
            agent_target=("127.0.0.1", int(self.agent_url.rpartition(":")[2])),
            pins=HostKeyStore(self.root / "pins"),
            on_change=self.changes.append,
            timing=QUICK,
        )
        self.backends.append(made)
        return made

    def count_agents(self) -> int:
        return len(self.listener.claims)


@pytest.fixture
def work() -> dict[str, object]:
    return {"shell": "sleep 1000"}


@pytest.fixture(params=[BEST_SERVER])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, work: dict[str, object]
) -> AsyncIterator[SshPlace]:
    with AgentListener(work) as listener:
        async with open_ssh_host(request.param, tmp_path / "home") as box, CuttableProxy(box.port) as wire:
            made = SshPlace(tmp_path, listener, box, wire)
            yield made
            for backend in made.backends:
                await backend.close()
            for number in (1, 2, 3):
                processes.kill_attempt(new_launch(made, number).name)


class TestSsh(BackendContract):
    async def test_the_ssh_backend_supports_its_capabilities(self, place: SshPlace) -> None:
        backend = place.backend
        assert isinstance(backend, SupportsAccountCheck)
        assert isinstance(backend, SupportsDelivery)
        assert isinstance(backend, SupportsShell)
        account = await backend.check()
        assert account.valid
        assert "GiB free disk, Python 3." in account.message
        shell = await backend.shell(Handle(name=new_launch(place).name))
        assert (shell.user, shell.host, len(shell.host_keys)) == (place.box.user, "127.0.0.1", 1)

    async def test_a_full_host_gives_the_reason_and_accepts_a_job_when_a_slot_is_free(
        self, place: SshPlace
    ) -> None:
        offer = await first_free_offer(place)
        handles = [await place.backend.launch(new_launch(place, n), offer) for n in (1, 2)]
        with pytest.raises(NoCapacity, match="0 of 2 CPU slots are free"):
            await place.backend.launch(new_launch(place, 3), offer)
        await place.backend.terminate(handles[0])
        await wait_for_state(place, handles[0], MachineState.GONE)
        third = await place.backend.launch(new_launch(place, 3), offer)
        for handle in (handles[1], third):
            await place.backend.terminate(handle)

    async def test_a_restarted_server_finds_its_agent_and_starts_no_other(self, place: SshPlace) -> None:
        launch = new_launch(place)
        await place.backend.launch(launch, await first_free_offer(place))
        await wait_until(lambda: place.count_agents() == 1)
        await place.backend.close()
        restarted = place.fresh_backend()
        place.backend = restarted
        place.changes.clear()
        restarted.start()
        await wait_until(lambda: place.changes == [launch.name])
        await wait_for_state(place, Handle(name=launch.name), MachineState.RUNNING)
        await wait_until(lambda: restarted._links[launch.name].state == "up")
        assert place.count_agents() == 1
        await restarted.terminate(Handle(name=launch.name))
        await wait_for_state(place, Handle(name=launch.name), MachineState.GONE)

    async def test_a_killed_agent_is_reported_at_once(self, place: SshPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        await wait_until(lambda: place.count_agents() == 1)
        place.changes.clear()
        agent = processes.processes_by_attempt()[handle.name][0]
        os.kill(agent, signal.SIGKILL)
        await wait_until(lambda: handle.name in place.changes)
        assert (await wait_for_state(place, handle, MachineState.EXITED, MachineState.GONE)).state in (
            MachineState.EXITED,
            MachineState.GONE,
        )
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)

    async def test_a_lost_network_does_not_end_the_attempt_and_the_link_reconnects(
        self, place: SshPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) == 2)
        before = processes.processes_by_attempt()[handle.name]
        place.wire.take_down()
        await wait_until(lambda: place.backend._links[handle.name].state == "broken")
        with pytest.raises(BackendUnavailable):
            await place.backend.probe(handle)
        place.wire.bring_up()
        await wait_until(lambda: place.backend._links[handle.name].state == "up")
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING
        assert (place.count_agents(), processes.processes_by_attempt()[handle.name]) == (1, before)
        await place.backend.terminate(handle)

    async def test_an_attempt_that_was_ended_does_not_start_a_moment_later(self, place: SshPlace) -> None:
        launch, offer = new_launch(place), await first_free_offer(place)
        launching = asyncio.create_task(place.backend.launch(launch, offer))
        await asyncio.sleep(0.05)
        await place.backend.terminate(Handle(name=launch.name))
        with pytest.raises(BackendUnavailable, match="was stopped while"):
            await launching
        await asyncio.sleep(0.3)
        assert launch.name not in processes.processes_by_attempt()

    async def test_reports_of_a_dead_agent_are_delivered_through_a_separate_tunnel(
        self, place: SshPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) == 2)
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        assert place.listener.ends == []
        await place.backend.deliver(Handle(name=handle.name))
        await wait_until(lambda: len(place.listener.ends) == 1)
        assert place.listener.ends[0]["outcome"] == "agent_lost"
        assert place.count_agents() == 1

    async def test_an_unreachable_host_does_not_delay_the_others(self, place: SshPlace) -> None:
        backend = place.fresh_backend(hosts=(f"someone@127.0.0.1:{free_port()}",))
        end = time.monotonic() + 60
        while True:
            began = time.monotonic()
            good, silent = await backend.offers(new_launch(place).resources)
            assert time.monotonic() - began < 15
            if good.free and "has not answered for" not in silent.wait_reason:
                break
            assert time.monotonic() < end, (good, silent)
        assert (good.free, silent.free) == (2, 0)
        assert "does not answer over SSH" in silent.wait_reason
        with pytest.raises(BackendUnavailable, match="does not answer"):
            await backend.probe(Handle(name=new_launch(place).name))

    async def test_servers_that_share_a_host_do_not_see_each_others_attempts(self, place: SshPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        other = place.fresh_backend(secret=b"another server's")
        assert await other.inventory() == []
        assert (await other.offers(new_launch(place).resources))[0].free == 1
        await place.backend.terminate(handle)


class TestBadHosts:
    """What goes wrong at the door is said at once and in words."""

    async def test_a_wrong_key_names_the_user_and_where_the_key_belongs(self, place: SshPlace) -> None:
        offer = await first_free_offer(place)
        backend = place.fresh_backend(key=attempt_key(b"some other", "key"))
        with pytest.raises(
            SshRefused, match=f"refused the SSH login as {place.box.user}@127.0.0.1.*authorized_keys"
        ):
            await backend.launch(new_launch(place), offer)

    async def test_a_changed_host_key_is_never_accepted(self, place: SshPlace) -> None:
        await place.backend.check()
        await place.box.close()
        place.box.host_key = attempt_key(b"reinstalled", "box")
        await place.box.open()
        place.wire.target = place.box.port
        backend = place.fresh_backend()
        offer = (await backend.offers(new_launch(place).resources))[0]
        assert "host key" in offer.wait_reason
        with pytest.raises(HostKeyChanged, match="remove the host from anygpu and add it again"):
            await backend.launch(new_launch(place), offer)
        assert place.count_agents() == 0
