"""CanopyWave's adapter on the simulator: the addresses it needs, and that none stays."""

from typing import ClassVar

from tests.contracts.backends.provider_contract import (
    NAME,
    Connects,
    ProviderContract,
    cheapest,
    gone,
    order,
    rented_beside,
    until,
)
from tests.contracts.backends.vm_backend_contract import RentedBackendContract

from anygpu.backends.clouds import canopywave
from anygpu.backends.vm.provider import PowerState, Provider
from anygpu.cloudsim import CloudSim


class TestCanopyWave(ProviderContract):
    module: ClassVar = canopywave

    async def test_one_address_is_rented_however_often_the_machine_is_listed(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        made = await provider.create(order(await cheapest(provider)))
        machine = await until(provider, made.id, PowerState.RUNNING)
        assert {each.address for _ in range(3) for each in await provider.machines()} == {machine.address}
        assert rented_beside(sim) == [machine.address]

    async def test_an_allocation_without_an_answer_is_not_repeated(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        sim.inject_fault("lost_answer", vendor="canopywave", operation="allocate", times=1)
        made = await provider.create(order(await cheapest(provider)))
        machine = await until(provider, made.id, PowerState.RUNNING)
        assert rented_beside(sim) == [machine.address]

    async def test_an_address_at_a_machine_of_ours_is_a_leftover_that_can_be_removed(
        self, sim: CloudSim, connect: Connects
    ) -> None:
        provider = await connect()
        made = await provider.create(order(await cheapest(provider)))
        await until(provider, made.id, PowerState.RUNNING)
        found = {leftover.kind: leftover for leftover in await provider.leftovers()}
        assert {leftover.name for leftover in found.values()} == {NAME}
        for leftover in found.values():
            await provider.remove(leftover)
            await provider.remove(leftover)
        assert rented_beside(sim) == []

    async def test_a_server_that_died_before_it_released_an_address_finds_it_by_name(
        self, sim: CloudSim, connect: Connects
    ) -> None:
        before = await connect()
        made = await before.create(order(await cheapest(before)))
        await until(before, made.id, PowerState.RUNNING)
        after = await connect()
        (machine,) = await after.machines()
        await after.destroy(machine)
        await gone(after, made.id)
        assert (rented_beside(sim), list(await after.leftovers())) == ([], [])


class TestCanopyWaveBackend(RentedBackendContract):
    module: ClassVar = canopywave
