"""Lambda's adapter on the simulator."""

from typing import ClassVar

import pytest
from tests.contracts.backends.provider_contract import (
    NAME,
    Connects,
    ProviderContract,
    cheapest,
    order,
    until,
)
from tests.contracts.backends.vm_backend_contract import RentedBackendContract

from anygpu.backends.clouds import lambda_
from anygpu.backends.vm.provider import PowerState, Provider
from anygpu.cloudsim import CloudSim
from anygpu.errors import RateLimited


class TestLambda(ProviderContract):
    module: ClassVar = lambda_
    told: ClassVar = {"launch_every_s": 0}

    async def test_a_launch_that_comes_too_soon_is_told_so_and_leaves_no_machine(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        offer = await cheapest(provider)
        await provider.create(order(offer))
        with pytest.raises(RateLimited) as raised:
            await provider.create(order(offer, name=f"{NAME}0"))
        assert raised.value.details["retry_after_s"] == 10
        assert len(sim.live_instances()) == 1

    async def test_two_machines_of_one_name_are_both_listed_and_ended_apart(
        self, sim: CloudSim, provider: Provider
    ) -> None:
        offer = await cheapest(provider)
        first = await provider.create(order(offer))
        sim.advance(10)
        second = await provider.create(order(offer))
        assert {machine.id for machine in await provider.machines()} == {first.id, second.id}
        await provider.destroy(second)
        assert (await until(provider, first.id, PowerState.RUNNING)).name == NAME

    async def test_a_region_that_is_not_wanted_is_not_offered(self, connect: Connects) -> None:
        provider = await connect(regions=("us-west-1",))
        assert (await cheapest(provider)).region == "us-west-1"


class TestLambdaBackend(RentedBackendContract):
    module: ClassVar = lambda_
    told: ClassVar = {"launch_every_s": 0}
