"""The lifecycle of rented machines on EC2 as the simulator plays it: real SSH, real agents, a real tunnel."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from tests.contracts.backends import simulated_ec2

from anygpu.backends.clouds.ec2 import adapter
from anygpu.backends.contract import MachineState, Observation
from anygpu.backends.ssh.connection import SshTiming
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.vm.backend import VmBackend
from anygpu.backends.vm.options import VmTiming
from anygpu.cloudsim import CloudSim
from anygpu.events.facts import Blame
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener

QUICK_SSH = SshTiming(tries=5, retry_interval_s=0.2, connect_s=5, keepalive_s=0.3, keepalive_misses=2)
QUICK = VmTiming(poll_fast_s=0.1, poll_idle_s=20, host_keys_timeout_s=2, ssh=QUICK_SSH)


class Ec2Place:
    """A server with an EC2 backend. `restarted` is the next server with the same secret."""

    def __init__(self, sim: CloudSim, listener: AgentListener, state: Path) -> None:
        self.sim, self.listener, self._state = sim, listener, state
        self.agent_url = listener.url
        self.changes: list[str] = []
        self._opened: list[VmBackend] = []
        self.backend: VmBackend

    async def open(self, timing: VmTiming = QUICK, **told: Any) -> VmBackend:
        options = simulated_ec2.options(self.sim, **told)
        self.backend = VmBackend(
            "aws",
            await adapter.connect(options),
            options,
            secret=b"the secret of one server",
            agent_target=("127.0.0.1", int(self.listener.url.rpartition(":")[2])),
            pins=HostKeyStore(self._state / "pins"),
            on_change=self.changes.append,
            timing=timing,
        )
        self._opened.append(self.backend)
        return self.backend

    async def close(self) -> None:
        for backend in self._opened:
            await backend.close()

    def count_agents(self) -> int:
        return len(self.listener.claims)

    async def training(self, *, spot: bool = False) -> Handle:
        offers: list[Offer] = [*await self.backend.offers(Resources())]
        offer = next(o for o in offers if o.interruptible is spot)
        handle = await self.backend.launch(new_launch(self), offer)
        await wait_until(lambda: self.count_agents() == 1)
        return handle


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Ec2Place]:
    with AgentListener({"shell": "sleep 1000"}) as listener:
        async with CloudSim(simulated_ec2.QUICK) as sim:
            made = Ec2Place(sim, listener, tmp_path)
            await made.open()
            yield made
            await made.close()


class TestVmOnEc2(BackendContract):
    async def test_a_restarted_server_reaches_the_agent_again_and_starts_no_second(
        self, place: Ec2Place
    ) -> None:
        handle = await place.training()
        await place.backend.close()
        restarted = await place.open()
        await until_detail(restarted, handle, "the agent runs")
        assert place.count_agents() == 1
        await restarted.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        assert not place.sim.live_instances()

    async def test_a_server_that_died_before_the_agent_started_has_left_enough_to_start_it(
        self, place: Ec2Place
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await place.backend.close()  # the machine has not booted yet
        restarted = await place.open()
        await restarted.probe(handle)
        await wait_until(lambda: place.count_agents() == 1)

    async def test_a_preempted_machine_is_noticed_within_the_second_it_is_taken(
        self, place: Ec2Place
    ) -> None:
        handle = await place.training(spot=True)
        await until_detail(place.backend, handle, "the agent runs")
        place.changes.clear()
        taken_at = time.monotonic()
        place.sim.preempt(handle.native["id"], notice_s=0)
        await wait_until(lambda: handle.name in place.changes)
        seen = await wait_for_state(place, handle, MachineState.EXITED, MachineState.GONE)
        assert time.monotonic() - taken_at < 15  # the next look is 20 s away
        assert seen.preempted
        gone = await wait_for_state(place, handle, MachineState.GONE)
        (entry,) = place.sim.billing_entries("ec2")
        assert gone.started_at_ms is not None
        assert gone.ended_at_ms is not None
        assert (gone.started_at_ms // 1000, gone.ended_at_ms // 1000) == (
            entry.started_at_ms // 1000,
            (entry.ended_at_ms or 0) // 1000,
        )

    async def test_a_lost_network_does_not_end_the_attempt_and_training_continues(
        self, place: Ec2Place
    ) -> None:
        handle = await place.training()
        await until_detail(place.backend, handle, "the agent runs")
        place.sim.disconnect(handle.native["id"], 2)
        out_of_reach = await until_detail(place.backend, handle, "was lost")
        assert out_of_reach.state is MachineState.RUNNING
        await until_detail(place.backend, handle, "the agent runs")
        assert place.count_agents() == 1

    async def test_a_machine_whose_ssh_never_answers_fails_by_the_name_of_that_step(
        self, place: Ec2Place
    ) -> None:
        place.sim.inject_fault("ssh_refused", vendor="ec2")
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        seen = await until_failure(place.backend, handle)
        assert seen.failure is not None
        assert (seen.failure.code, seen.failure.blame) == ("ssh_unreachable", Blame.LAUNCH)
        assert handle.name in seen.failure.message

    async def test_a_boot_that_never_finishes_fails_by_the_name_of_that_step(self, place: Ec2Place) -> None:
        place.sim.inject_fault("boot_hangs", vendor="ec2")
        await place.open(
            VmTiming(poll_fast_s=0.1, address_timeout_s=0.5, host_keys_timeout_s=1, ssh=QUICK_SSH)
        )
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        seen = await until_failure(place.backend, handle)
        assert seen.failure is not None
        assert seen.failure.code in ("no_address", "ssh_unreachable")
        assert seen.failure.blame is Blame.LAUNCH

    async def test_a_call_that_succeeded_and_was_not_answered_makes_one_machine(
        self, place: Ec2Place
    ) -> None:
        offer = await first_free_offer(place)
        place.sim.inject_fault("lost_answer", vendor="ec2", operation="launch", times=1)
        with pytest.raises(Exception, match="did not answer"):
            await place.backend.launch(new_launch(place), offer)
        await place.backend.launch(new_launch(place), offer)
        await wait_until(lambda: place.count_agents() == 1)
        assert len(place.sim.instances) == 1

    async def test_a_person_gets_a_shell_on_the_machine(self, place: Ec2Place) -> None:
        handle = await place.training()
        assert (await on_machine(place, handle, "echo $((6 * 7))")) == "42"

    async def test_what_an_agent_left_when_it_was_killed_is_sent_before_its_machine_goes(
        self, place: Ec2Place
    ) -> None:
        handle = await place.training()
        await until_detail(place.backend, handle, "the agent runs")
        note = f"~/.anygpu/attempts/{handle.name}/agent.json"
        await on_machine(place, handle, f"kill -9 $(sed 's/.*\"pid\": *\\([0-9]*\\).*/\\1/' {note})")
        seen = await wait_for_state(place, handle, MachineState.EXITED)
        assert "has ended" in seen.detail
        await place.backend.terminate(handle)
        assert [end["outcome"] for end in place.listener.ends] == ["agent_lost"]
        await wait_for_state(place, handle, MachineState.GONE)


async def on_machine(place: Ec2Place, handle: Handle, command: str) -> str:
    shell = await place.backend.shell(handle)
    known = asyncssh.import_known_hosts(f"[{shell.host}]:{shell.port} {shell.host_keys[0]}\n")
    async with asyncssh.connect(
        shell.host,
        shell.port,
        username=shell.user,
        client_keys=[asyncssh.import_private_key(shell.private_key)],
        known_hosts=known,
        config=None,
    ) as connection:
        found = await connection.run(command, check=True)
    return str(found.stdout).strip()


async def until_detail(backend: VmBackend, handle: Handle, words: str, within_s: float = 60) -> Observation:
    async with asyncio.timeout(within_s):
        while True:
            seen = await backend.probe(handle)
            if words in seen.detail:
                return seen
            await asyncio.sleep(0.05)


async def until_failure(backend: VmBackend, handle: Handle, within_s: float = 60) -> Observation:
    async with asyncio.timeout(within_s):
        while True:
            seen = await backend.probe(handle)
            if seen.failure is not None:
                return seen
            await asyncio.sleep(0.05)
