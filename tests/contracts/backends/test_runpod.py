"""RunPod's adapter on the simulator: a mapped port, a meter, a balance."""

from typing import ClassVar

from tests.contracts.backends.provider_contract import ProviderContract, cheapest, gone, order, until
from tests.contracts.backends.vm_backend_contract import RentedBackendContract

from anygpu.backends.clouds import runpod
from anygpu.backends.vm.provider import MeteredProvider, PowerState, Provider
from anygpu.cloudsim import CloudSim
from anygpu.spec.sections import Gpu, Resources

TWO = Resources(gpu=Gpu(count=2))


class TestRunPod(ProviderContract):
    module: ClassVar = runpod

    async def test_the_metered_cost_equals_the_simulators(self, sim: CloudSim, provider: Provider) -> None:
        assert isinstance(provider, MeteredProvider)
        made = await provider.create(order(await cheapest(provider)))
        machine = await until(provider, made.id, PowerState.RUNNING)
        sim.advance(1234)
        await provider.destroy(machine)
        await gone(provider, made.id)
        (entry,) = sim.billing_entries("runpod")
        assert await provider.metered_microusd(machine) == entry.billed_microusd > 0

    async def test_the_balance_goes_down_by_what_is_used(self, sim: CloudSim, provider: Provider) -> None:
        before = (await provider.check()).balance_microusd
        await provider.create(order(await cheapest(provider)))
        sim.advance(3600)
        after = (await provider.check()).balance_microusd
        assert before is not None
        assert after is not None
        assert after < before

    async def test_two_gpus_cost_twice_as_much_as_one(self, provider: Provider) -> None:
        one = await cheapest(provider)
        offers = await provider.offers(TWO)
        twice = [o.price_microusd_per_hour for o in offers if (o.name, o.region) == (one.name, one.region)]
        assert twice == [2 * one.price_microusd_per_hour]


class TestRunPodBackend(RentedBackendContract):
    module: ClassVar = runpod
