"""EC2's adapter on the simulator, which boto3 cannot tell from AWS: real SSH, faults, prices, the meter."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.contracts.backends import simulated_ec2
from tests.contracts.backends.provider_contract import NAME, gone, order, said, until

from anygpu.backends.clouds.ec2 import adapter as ec2
from anygpu.backends.vm.provider import (
    CloudMachine,
    CredentialsRefused,
    MeteredProvider,
    OutcomeUnknown,
    PowerState,
)
from anygpu.cloudsim import CloudSim
from anygpu.errors import BackendUnavailable, LaunchRefused, NoCapacity, NoQuota, RateLimited
from anygpu.events.offers import Billing, Offer
from anygpu.spec.sections import Gpu, Resources

ONE_GPU = Resources(gpu=Gpu(count=1))
Connect = Callable[..., Awaitable[ec2.Ec2Provider]]


@pytest.fixture
async def sim() -> AsyncIterator[CloudSim]:
    async with CloudSim(simulated_ec2.QUICK) as running:
        yield running


@pytest.fixture
async def connect(sim: CloudSim) -> AsyncIterator[Connect]:
    opened: list[Any] = []

    async def connected(**told: Any) -> ec2.Ec2Provider:
        opened.append(await ec2.connect(simulated_ec2.options(sim, **told)))
        found: ec2.Ec2Provider = opened[-1]
        return found

    yield connected
    for provider in opened:
        await provider.close()


@pytest.fixture
async def provider(connect: Connect) -> ec2.Ec2Provider:
    return await connect()


async def offered(provider: ec2.Ec2Provider, name: str, *, spot: bool = False) -> Offer:
    offers = await provider.offers(ONE_GPU)
    return next(o for o in offers if o.name == name and o.interruptible is spot and o.free != 0)


async def test_a_machine_is_rented_once_logged_into_and_ended_with_all_it_had(
    sim: CloudSim, provider: ec2.Ec2Provider
) -> None:
    offer = await offered(provider, "g5.xlarge", spot=True)
    made, again = await provider.create(order(offer)), await provider.create(order(offer))
    assert (made.id, made.name) == (again.id, NAME)
    machine = replace(await until(provider, made.id, PowerState.RUNNING), port=sim.options.ssh_port)
    assert await said(provider, machine, "echo $((6 * 7))") == "42"
    assert [key.split()[0] for key in await provider.host_keys(machine)] == ["ssh-ed25519"]
    await provider.destroy(machine)
    await gone(provider, made.id)
    assert (list(await provider.leftovers()), sim.live_instances()) == ([], [])
    await provider.destroy(machine)  # twice is the same as once


async def test_a_name_whose_request_changed_meanwhile_is_still_one_machine(
    sim: CloudSim, provider: ec2.Ec2Provider, connect: Connect
) -> None:
    offer = await offered(provider, "g5.xlarge")
    made = await provider.create(order(offer))
    another = await (await connect(volume_gib=200)).create(order(offer))
    assert another.id == made.id
    assert len(sim.live_instances()) == 1


async def test_a_machine_that_is_not_ended_ends_by_itself(sim: CloudSim, provider: ec2.Ec2Provider) -> None:
    soon = replace(order(await offered(provider, "g5.xlarge")), startup_script="#!/bin/sh\nshutdown -h +1\n")
    made = await provider.create(soon)
    await until(provider, made.id, PowerState.RUNNING)
    async with asyncio.timeout(60):
        while sim.instances[made.id].shutdown_at_ms is None:
            await asyncio.sleep(0.05)
    sim.advance(61)
    await gone(provider, made.id)
    (ended,) = await provider.machines()
    assert (ended.power, ended.preempted) == (PowerState.ENDED, False)


async def test_a_preempted_machine_says_so_and_when(sim: CloudSim, provider: ec2.Ec2Provider) -> None:
    made = await provider.create(order(await offered(provider, "g5.xlarge", spot=True)))
    await until(provider, made.id, PowerState.RUNNING)
    sim.preempt(made.id, notice_s=0)
    await gone(provider, made.id)
    (ended,) = await provider.machines()
    (entry,) = sim.billing_entries("ec2")
    assert ended.preempted
    assert ended.ended_at_ms is not None
    assert abs(ended.ended_at_ms - (entry.ended_at_ms or 0)) <= 1000
    assert (ended.started_at_ms or 0) // 1000 == entry.started_at_ms // 1000


async def test_offers_are_priced_on_demand_by_the_table_and_spot_by_zone(provider: ec2.Ec2Provider) -> None:
    demand, spot = await offered(provider, "g5.xlarge"), await offered(provider, "g5.xlarge", spot=True)
    assert (demand.price_microusd_per_hour, demand.zone) == (1_006_000, "")
    assert (spot.price_microusd_per_hour, spot.zone) == (493_200, "us-west-2a")
    assert (demand.gpu_kind, demand.gpu_count, demand.gpu_memory_gib) == ("A10G", 1, 24)
    assert (demand.cpus, demand.memory_gib, demand.disk_gib) == (4, 16, 100)
    assert (demand.self_expires, demand.billing) == ("halt", Billing(step_s=1, minimum_s=60))


async def test_a_job_without_a_gpu_is_offered_small_machines_and_no_gpu(provider: ec2.Ec2Provider) -> None:
    offers = await provider.offers(Resources())
    assert {offer.gpu_count for offer in offers} == {0}
    assert "t3.medium" in {offer.name for offer in offers}


async def test_only_the_types_and_markets_wanted_are_offered(connect: Connect) -> None:
    offers = await (await connect(instance_types=("g5.*",), spot=False)).offers(ONE_GPU)
    assert {offer.name for offer in offers} == {"g5.xlarge", "g5.2xlarge", "g5.12xlarge"}
    assert not any(offer.interruptible for offer in offers)


async def test_a_check_says_who_we_are_and_how_much_we_may_run(connect: Connect) -> None:
    found = await (await connect()).check()
    assert found.valid
    assert "user/simulated by access key AKIASIMULATED0000000" in found.message
    assert "vCPUs G on demand" in found.quota


@pytest.mark.parametrize(
    "wrong",
    [{"access_key_id": "AKIANOBODY"}, {"secret_access_key": "guessed"}, {"regions": ("us-wets-2",)}],
    ids=["key", "secret", "region"],
)
async def test_wrong_credentials_or_a_wrong_region_are_named_and_rent_nothing(
    sim: CloudSim, connect: Connect, wrong: dict[str, Any]
) -> None:
    provider = await connect(**wrong)
    found = await provider.check()
    assert not found.valid
    assert "guessed" not in found.message
    region = wrong.get("regions", ("us-west-2",))[0]
    offer = Offer(backend="", name="g5.xlarge", region=region, gpu_count=1, price_microusd_per_hour=1)
    with pytest.raises(CredentialsRefused, match=rf"Check the credentials .*access key .* region {region}"):
        await provider.create(order(offer))
    assert not sim.live_instances()


async def test_half_of_a_key_is_not_filled_up_with_somebody_elses(connect: Connect) -> None:
    with pytest.raises(CredentialsRefused, match="one is missing"):
        await connect(secret_access_key=None)


@pytest.mark.parametrize(
    ("fault", "error"), [("no_capacity", NoCapacity), ("quota", NoQuota), ("throttle", RateLimited)]
)
async def test_a_refusal_is_told_apart(
    sim: CloudSim, provider: ec2.Ec2Provider, fault: str, error: type[Exception]
) -> None:
    offer = await offered(provider, "g5.xlarge")
    sim.inject_fault(fault, vendor="ec2", operation="launch")
    with pytest.raises(error) as raised:
        await provider.create(order(offer))
    assert type(raised.value) is error
    assert not sim.live_instances()


async def test_a_launch_without_an_answer_may_have_been_done_and_is_found_by_its_token(
    sim: CloudSim, provider: ec2.Ec2Provider
) -> None:
    offer = await offered(provider, "g5.xlarge")
    sim.inject_fault("lost_answer", vendor="ec2", operation="launch", times=1)
    with pytest.raises(OutcomeUnknown):
        await provider.create(order(offer))
    made = await provider.create(order(offer))
    assert [machine.id for machine in await provider.machines()] == [made.id]


async def test_an_unknown_type_or_image_is_refused_in_ec2s_words(
    provider: ec2.Ec2Provider, connect: Connect
) -> None:
    offer = await offered(provider, "g5.xlarge")
    with pytest.raises(LaunchRefused, match="z9000"):
        await provider.create(order(replace(offer, name="z9000")))
    with pytest.raises(LaunchRefused, match="ami-0123"):
        await (await connect(image="ami-0123")).create(order(offer))


async def test_a_service_that_is_not_there_is_unavailable_and_nothing_was_sent(connect: Connect) -> None:
    provider = await connect(endpoint="http://127.0.0.1:9/ec2")
    with pytest.raises(BackendUnavailable, match="cannot be reached"):
        await provider.machines()


async def test_reserved_capacity_is_an_offer_at_no_further_cost_and_is_launched_into(
    provider: ec2.Ec2Provider, connect: Connect
) -> None:
    reserved = await provider._aws.call(
        "us-west-2",
        "create_capacity_reservation",
        InstanceType="g5.xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-west-2b",
        InstanceCount=1,
    )
    id = reserved["CapacityReservation"]["CapacityReservationId"]
    holder = await connect(capacity_reservations=(id,))
    offer = next(o for o in await holder.offers(ONE_GPU) if o.price_microusd_per_hour == 0)
    assert (offer.name, offer.zone, offer.free) == ("g5.xlarge", "us-west-2b", 1)
    target = (await holder.native_request(order(offer)))["CapacityReservationSpecification"]
    assert target == {"CapacityReservationTarget": {"CapacityReservationId": id}}
    await holder.create(order(offer))
    assert next(o for o in await holder.offers(ONE_GPU) if o.price_microusd_per_hour == 0).free == 0


async def test_the_meter_is_cost_explorers_when_it_is_asked_for(connect: Connect, sim: CloudSim) -> None:
    provider: Any = await connect(meter="cost-explorer", meter_after_h=0)
    made = await provider.create(order(await offered(provider, "g5.xlarge")))
    await until(provider, made.id, PowerState.RUNNING)
    await provider.destroy(made)
    await gone(provider, made.id)
    (ended,) = await provider.machines()
    metered = await _metered(provider, ended)
    assert metered == sim.billing_entries("ec2")[0].billed_microusd
    assert not isinstance(await connect(), MeteredProvider)


async def _metered(provider: MeteredProvider, machine: CloudMachine) -> int | None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = await provider.metered_microusd(machine)
        if found is not None:
            return found
        await asyncio.sleep(0.05)
    return None


async def test_the_native_request_is_shown_without_creating_anything_or_any_key(
    provider: ec2.Ec2Provider,
) -> None:
    offer = next(o for o in await provider.offers(ONE_GPU) if o.region == "us-west-2")
    [shown] = await provider.native_requests(order(offer))
    assert shown.title == "EC2 RunInstances in us-west-2"
    body = json.loads(shown.text)
    assert (body["InstanceType"], body["ClientToken"]) == (offer.name, order(offer).name)
    groups = await provider._aws.call("us-west-2", "describe_security_groups")
    assert [group for group in groups["SecurityGroups"] if "anygpu" in group["GroupName"]] == []
    assert "(the security group that anygpu creates at the first launch)" in shown.text
    await provider.create(order(offer))
    [after] = await provider.native_requests(order(offer))
    assert "(the security group" not in after.text
