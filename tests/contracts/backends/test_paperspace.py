"""Paperspace's adapter on the simulator."""

from typing import ClassVar

from tests.contracts.backends.provider_contract import ProviderContract, cheapest, order, until
from tests.contracts.backends.vm_backend_contract import RentedBackendContract

from anygpu.backends.clouds import paperspace
from anygpu.backends.vm.provider import PowerState, Provider
from anygpu.cloudsim import CloudSim


class TestPaperspace(ProviderContract):
    module: ClassVar = paperspace

    async def test_a_machine_goes_off_by_itself_when_its_life_is_over(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        made = await provider.create(order(await cheapest(provider)))
        await until(provider, made.id, PowerState.RUNNING)
        sim.advance(36_001)
        assert (await until(provider, made.id, PowerState.STOPPED)).detail == "off"


class TestPaperspaceBackend(RentedBackendContract):
    module: ClassVar = paperspace
