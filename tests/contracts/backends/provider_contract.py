"""What every provider of machines must do, shown on the simulator that speaks its language and with real SSH."""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any, ClassVar

import asyncssh
import pytest

from anygpu.backends.vm.provider import CloudMachine, MachineOrder, OutcomeUnknown, PowerState, Provider
from anygpu.cloudsim import CloudSim, CloudTiming, SimOptions
from anygpu.errors import LaunchRefused, NoCapacity, NoQuota, RateLimited
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

NAME = "anygpu-0198f3c27a107c3e9d2b5b1f6f0c1a2e-1-5e4f3a2b"
KEY = asyncssh.generate_private_key("ssh-ed25519")
HALT_LATER = "#!/bin/sh\nshutdown -h +600 'the life of this machine is over'\n"
Connects = Callable[..., Any]


class ProviderContract:
    """A subclass names its adapter's module; everything else follows from the kind."""

    module: ClassVar[ModuleType]
    told: ClassVar[dict[str, Any]] = {}

    @property
    def kind(self) -> str:
        return self.module.__name__.rpartition(".")[2].rstrip("_")

    @pytest.fixture
    async def sim(self) -> AsyncIterator[CloudSim]:
        async with CloudSim(SimOptions(timing=CloudTiming(boot_s=0.2, ending_s=0.1))) as running:
            yield running

    @pytest.fixture
    async def connect(self, sim: CloudSim) -> AsyncIterator[Connects]:
        opened: list[Provider] = []

        async def connected(**told: Any) -> Provider:
            known = {"endpoint": sim.url(self.kind), "ssh_port": sim.options.ssh_port, **self.told}
            options = self.module.Options(**{**known, "api_key": f"sim-{self.kind}-key", **told})
            opened.append(await self.module.connect(options))
            return opened[-1]

        yield connected
        for provider in opened:
            await provider.close()

    @pytest.fixture
    async def provider(self, connect: Connects) -> Provider:
        found: Provider = await connect()
        return found

    async def test_a_machine_is_rented_logged_into_and_ended_with_all_it_had(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        made = await provider.create(order(await cheapest(provider)))
        assert made.name == NAME
        machine = await until(provider, made.id, PowerState.RUNNING)
        assert await said(provider, machine, "echo $((6 * 7))") == "42"
        await provider.destroy(machine)
        await gone(provider, made.id)
        assert (list(await provider.leftovers()), sim.live_instances(), rented_beside(sim)) == ([], [], [])
        await provider.destroy(machine)  # twice is the same as once

    async def test_only_the_ordered_key_logs_in(self, provider: Provider) -> None:
        made = await provider.create(order(await cheapest(provider)))
        machine = await until(provider, made.id, PowerState.RUNNING)
        assert await said(provider, machine, "true") == ""
        with pytest.raises(asyncssh.PermissionDenied):
            await logged_in(provider, machine, asyncssh.generate_private_key("ssh-ed25519"))

    async def test_the_offer_is_billed_as_it_says(self, sim: CloudSim, provider: Provider) -> None:
        offer = await cheapest(provider)
        made = await provider.create(order(offer))
        machine = await until(provider, made.id, PowerState.RUNNING)
        sim.advance(4000)
        await provider.destroy(machine)
        await gone(provider, made.id)
        (entry,) = [entry for entry in sim.billing_entries(self.kind) if entry.id == made.id]
        assert entry.ended_at_ms is not None
        used_s = entry.ended_at_ms // 1000 - entry.started_at_ms // 1000
        steps = -(-used_s // offer.billing.step_s)
        assert entry.billed_s == max(steps * offer.billing.step_s, offer.billing.minimum_s)
        assert entry.price_microusd_per_hour == offer.price_microusd_per_hour

    async def test_a_check_says_that_the_key_works_or_why_not(self, connect: Connects) -> None:
        assert (await (await connect()).check()).valid
        wrong = await (await connect(api_key="nobodys")).check()
        assert not wrong.valid
        assert "API_KEY" in wrong.message

    async def test_a_launch_with_a_wrong_key_is_refused(self, sim: CloudSim, connect: Connects) -> None:
        offer = await cheapest(await connect())
        with pytest.raises(LaunchRefused, match="API_KEY"):
            await (await connect(api_key="nobodys")).create(order(offer))
        assert not sim.live_instances()

    @pytest.mark.parametrize(
        ("fault", "error"), [("no_capacity", NoCapacity), ("quota", NoQuota), ("throttle", RateLimited)]
    )
    async def test_a_refusal_is_told_apart(
        self, sim: CloudSim, provider: Provider, fault: str, error: type[Exception]
    ) -> None:
        offer = await cheapest(provider)
        sim.inject_fault(fault, vendor=self.kind, operation="launch")
        with pytest.raises(error) as raised:
            await provider.create(order(offer))
        assert type(raised.value) is error
        assert not sim.live_instances()

    async def test_a_launch_without_an_answer_may_have_been_done(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        offer = await cheapest(provider)
        sim.inject_fault("lost_answer", vendor=self.kind, operation="launch", times=1)
        with pytest.raises(OutcomeUnknown):
            await provider.create(order(offer))
        (machine,) = await provider.machines()
        assert machine.name == NAME
        await provider.destroy(machine)
        await gone(provider, machine.id)
        assert (list(await provider.leftovers()), rented_beside(sim)) == ([], [])

    async def test_machines_of_others_are_not_ours(self, sim: CloudSim, provider: Provider) -> None:
        offer = await cheapest(provider)
        await provider.create(order(offer, name="laptop-of-somebody"))
        assert list(await provider.machines()) == []
        assert len(sim.live_instances()) == 1

    async def test_an_unknown_type_is_refused_by_name(self, provider: Provider) -> None:
        offer = await cheapest(provider)
        strange = Offer(backend="", name="z9000", region=offer.region, gpu_count=1)
        with pytest.raises((LaunchRefused, NoCapacity)):
            await provider.create(order(strange))


def order(offer: Offer, name: str = NAME) -> MachineOrder:
    public_key = KEY.export_public_key().decode().strip()
    return MachineOrder(
        name=name, offer=offer, public_key=public_key, startup_script=HALT_LATER, max_life_s=36_000
    )


async def cheapest(provider: Provider) -> Offer:
    offers = [offer for offer in await provider.offers(Resources()) if offer.free != 0 and offer.gpu_count]
    return min(offers, key=lambda offer: (offer.price_microusd_per_hour, offer.name, offer.region))


async def until(provider: Provider, machine_id: str, power: PowerState) -> CloudMachine:
    """The machine, once it has this power and an address."""
    async with asyncio.timeout(60):
        while True:
            for machine in await provider.machines():
                if machine.id == machine_id and machine.power is power and machine.address:
                    return machine
            await asyncio.sleep(0.05)


async def gone(provider: Provider, machine_id: str) -> None:
    async with asyncio.timeout(60):
        while any(m.id == machine_id and m.power is not PowerState.ENDED for m in await provider.machines()):
            await asyncio.sleep(0.05)


async def said(provider: Provider, machine: CloudMachine, command: str) -> str:
    """What a command prints there. Port and key may come a moment after the machine is called running."""
    async with asyncio.timeout(60):
        while True:
            try:
                connection = await logged_in(provider, machine, KEY)
            except (ConnectionRefusedError, asyncssh.ConnectionLost, asyncssh.PermissionDenied):
                await asyncio.sleep(0.05)
                continue
            async with connection:
                return str((await connection.run(command, check=True)).stdout).strip()


async def logged_in(
    provider: Provider, machine: CloudMachine, key: asyncssh.SSHKey
) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        machine.address,
        machine.port,
        username=provider.user,
        client_keys=[key],
        known_hosts=None,
        config=None,
    )


def rented_beside(sim: CloudSim) -> list[str]:
    """Addresses the simulator still bills."""
    vendors = {instance.vendor.name: instance.vendor for instance in sim.instances.values()}
    return [address.ip for vendor in vendors.values() for address in sim.cloud.addresses.all(vendor)]
