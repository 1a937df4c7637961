"""The simulated cloud without sockets: stub machines, and a clock that moves only on request."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from anygpu.cloudsim.clock import SimClock
from anygpu.cloudsim.cloud import CapacityLimits, Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.faults import FaultKind, InjectedFault
from anygpu.cloudsim.instance import Instance, InstanceOrder, InstanceState, StopCause
from anygpu.cloudsim.lifecycle import CloudTiming
from anygpu.cloudsim.machine.stub import StubMachine
from anygpu.cloudsim.market import CapacityTrace, SimSpotMarket
from anygpu.cloudsim.vendor import SimMachineType, SimVendor

VENDOR = SimVendor(
    name="v",
    regions={"r": ("ra", "rb")},
    types=(
        SimMachineType(name="a", price_microusd_per_hour=3_600_000, spot_microusd_per_hour=900_000, vcpus=4),
    ),
    credentials={"key": ""},
)


class StoppedCloud:
    """A cloud with a stopped clock: `pass_s` advances it and lets all tasks run."""

    def __init__(self, market: SimSpotMarket | None = None, limits: CapacityLimits | None = None) -> None:
        self.clock = SimClock(wall=lambda: 0.0)
        addresses: Iterator[str] = (f"127.77.0.{host}" for host in itertools.count(1))
        self.cloud = Cloud(
            self.clock,
            StubMachine,
            lambda: next(addresses),
            market=market,
            limits=limits,
            timing=CloudTiming(boot_s=8, ending_s=1, notice_s=120),
            seed=1,
        )

    async def pass_s(self, seconds: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.clock.advance(seconds)
        for _ in range(20):
            await asyncio.sleep(0)

    async def booted(self, **wanted: object) -> Instance:
        instance = self.cloud.launch(order(**wanted))
        await self.pass_s(2)
        await self.pass_s(6)
        assert instance.booted_at_ms is not None
        return instance


def order(**wanted: object) -> InstanceOrder:
    return InstanceOrder(**{"vendor": VENDOR, "type": "a", "region": "r", **wanted})  # type: ignore[arg-type]


def paper(instance: Instance) -> StubMachine:
    assert isinstance(instance.machine, StubMachine)
    return instance.machine


async def test_a_machine_is_pending_then_running_then_ready() -> None:
    world = StoppedCloud()
    instance = world.cloud.launch(order())
    assert (instance.state, instance.address) == (InstanceState.PENDING, "")
    await world.pass_s(2)
    assert (instance.state, instance.address, instance.booted_at_ms) == (
        InstanceState.RUNNING,
        "127.77.0.1",
        None,
    )
    await world.pass_s(6)
    assert instance.booted_at_ms == 8000
    assert paper(instance).listens_on == {"127.77.0.1"}


async def test_a_terminated_machine_stops_at_once_and_is_ended_a_little_later() -> None:
    world = StoppedCloud()
    instance = await world.booted()
    world.cloud.terminate(instance)
    world.cloud.terminate(instance)
    assert (instance.state, instance.stopped_at_ms) == (InstanceState.ENDING, 8000)
    await world.pass_s(1)
    assert (instance.state, instance.ended_at_ms, instance.cause) == (
        InstanceState.ENDED,
        9000,
        StopCause.USER,
    )
    assert (paper(instance).up, paper(instance).erased) == (False, True)
    assert world.cloud.disks.all(VENDOR) == []


async def test_a_machine_terminated_during_boot_never_becomes_ready() -> None:
    world = StoppedCloud()
    instance = world.cloud.launch(order())
    await world.pass_s(3)
    world.cloud.terminate(instance)
    await world.pass_s(20)
    assert (instance.state, paper(instance).up, instance.booted_at_ms) == (InstanceState.ENDED, False, None)


async def test_a_client_token_returns_the_same_machine_and_rejects_other_parameters() -> None:
    cloud = StoppedCloud().cloud
    first = cloud.launch(order(client_token="t", parameters="p"))
    assert cloud.launch(order(client_token="t", parameters="p")) is first
    with pytest.raises(CloudError) as refused:
        cloud.launch(order(client_token="t", parameters="q"))
    assert refused.value.reason is ErrorReason.MISMATCH
    assert cloud.launch(order()) is not cloud.launch(order())


async def test_capacity_quota_and_faults_have_different_error_reasons() -> None:
    cloud = StoppedCloud(limits=CapacityLimits(capacity={"a": 1}, vcpus={"v": 8})).cloud
    cloud.launch(order())
    for wanted, why in (
        ({}, ErrorReason.NO_CAPACITY),
        ({"type": "b"}, ErrorReason.INVALID),
        ({"region": "x"}, ErrorReason.INVALID),
    ):
        with pytest.raises(CloudError) as refused:
            cloud.launch(order(**wanted))
        assert refused.value.reason is why
    cloud = StoppedCloud(limits=CapacityLimits(vcpus={"v": 7})).cloud
    cloud.launch(order())
    with pytest.raises(CloudError) as refused:
        cloud.launch(order())
    assert refused.value.reason is ErrorReason.QUOTA


async def test_unknown_credentials_and_throttled_calls_are_rejected() -> None:
    cloud = StoppedCloud().cloud
    cloud.authorize(VENDOR, "list", credential="key")
    with pytest.raises(CloudError) as refused:
        cloud.authorize(VENDOR, "list", credential="other")
    assert refused.value.reason is ErrorReason.BAD_CREDENTIALS
    cloud.faults.add(InjectedFault(kind=FaultKind.THROTTLE, operation="list", times=1))
    with pytest.raises(CloudError) as refused:
        cloud.authorize(VENDOR, "list", credential="key")
    assert refused.value.reason is ErrorReason.THROTTLED


async def test_a_preempted_machine_gets_notice_and_ends_after_it() -> None:
    world = StoppedCloud()
    instance = await world.booted(spot=True)
    world.cloud.preempt(instance.id, notice_s=30)
    assert (instance.notice_at_ms, instance.preempt_at_ms, instance.state) == (
        8000,
        38_000,
        InstanceState.RUNNING,
    )
    await world.pass_s(30)
    assert (instance.cause, instance.stopped_at_ms) == (StopCause.PREEMPTED, 38_000)


async def test_without_notice_it_ends_at_once() -> None:
    world = StoppedCloud()
    instance = await world.booted(spot=True)
    world.cloud.preempt(instance.id, notice_s=0)
    assert instance.state is InstanceState.ENDING


async def test_a_trace_without_capacity_preempts_spot_machines_only() -> None:
    world = StoppedCloud(market=SimSpotMarket(traces=[CapacityTrace(600, (True, False, True))]))
    spot, lasting = await world.booted(spot=True), world.cloud.launch(order())
    await world.pass_s(600)
    assert spot.notice_at_ms == 600_000
    with pytest.raises(CloudError):
        world.cloud.launch(order(spot=True))
    await world.pass_s(600)
    await world.pass_s(2)
    assert (spot.state, lasting.state) == (InstanceState.ENDED, InstanceState.RUNNING)
    assert world.cloud.launch(order(spot=True)).state is InstanceState.PENDING


@pytest.mark.parametrize(
    ("on_halt", "state"),
    [("end", InstanceState.ENDED), ("stop", InstanceState.STOPPED), ("off", InstanceState.STOPPED)],
)
async def test_a_halt_does_what_the_order_says(on_halt: str, state: InstanceState) -> None:
    world = StoppedCloud()
    instance = await world.booted(on_halt=on_halt)
    world.cloud.lifecycle.schedule_shutdown(instance, 60)
    await world.pass_s(60)
    await world.pass_s(2)
    assert (instance.state, instance.cause, paper(instance).up) == (state, StopCause.HALT, False)


async def test_a_later_shutdown_replaces_the_earlier_and_can_be_cancelled() -> None:
    world = StoppedCloud()
    instance = await world.booted(on_halt="end")
    world.cloud.lifecycle.schedule_shutdown(instance, 60)
    world.cloud.lifecycle.schedule_shutdown(instance, 120)
    await world.pass_s(60)
    assert instance.state is InstanceState.RUNNING
    world.cloud.lifecycle.cancel_shutdown(instance)
    await world.pass_s(600)
    assert instance.state is InstanceState.RUNNING


async def test_a_machine_ends_after_its_maximum_lifetime() -> None:
    world = StoppedCloud()
    instance = await world.booted(max_life_s=3600)
    await world.pass_s(3600)
    assert instance.cause is StopCause.EXPIRED


async def test_lagging_lists_lack_new_machines_and_show_ended_ones() -> None:
    world = StoppedCloud()
    old = await world.booted()
    world.cloud.faults.add(InjectedFault(kind=FaultKind.LISTING_LAG, seconds=30))
    await world.pass_s(60)
    new = world.cloud.launch(order())
    world.cloud.terminate(old)
    assert [(each.id, each.state) for each in world.cloud.list_instances(VENDOR)] == [
        (old.id, InstanceState.RUNNING)
    ]
    assert world.cloud.find_instance(VENDOR, old.id).state is InstanceState.ENDING
    await world.pass_s(31)
    assert {each.id: each.state.is_ended for each in world.cloud.list_instances(VENDOR)} == {
        old.id: True,
        new.id: False,
    }


async def test_ended_machines_are_forgotten_after_a_while() -> None:
    world = StoppedCloud()
    instance = await world.booted()
    world.cloud.terminate(instance)
    await world.pass_s(1)
    assert world.cloud.list_instances(VENDOR, forget_s=10)
    await world.pass_s(10)
    assert world.cloud.list_instances(VENDOR, forget_s=10) == []


@pytest.mark.parametrize(
    ("kind", "ready", "answers"),
    [
        (FaultKind.BOOT_HANGS, False, False),
        (FaultKind.SSH_REFUSED, True, False),
        (FaultKind.DISK_FULL, True, True),
    ],
)
async def test_a_boot_fault_applies_to_the_next_boot(kind: FaultKind, ready: bool, answers: bool) -> None:
    world = StoppedCloud()
    world.cloud.faults.add(InjectedFault(kind=kind, bytes=5))
    instance = world.cloud.launch(order())
    await world.pass_s(2)
    await world.pass_s(60)
    assert (instance.state, instance.booted_at_ms is not None) == (InstanceState.RUNNING, ready)
    assert bool(paper(instance).listens_on) is answers
    assert paper(instance).file_bytes == (5 if kind is FaultKind.DISK_FULL else None)


async def test_a_machine_listens_on_an_associated_address() -> None:
    world = StoppedCloud()
    instance = await world.booted(public_address=False)
    assert (instance.address, paper(instance).listens_on) == ("", set())
    address = world.cloud.addresses.allocate(VENDOR, "r")
    await world.cloud.lifecycle.associate(address, instance)
    assert paper(instance).listens_on == {address.ip} == {instance.address}
    with pytest.raises(CloudError):
        world.cloud.addresses.release(address)
    world.cloud.terminate(instance)
    await world.pass_s(1)
    assert address.instance == ""
    world.cloud.addresses.release(address)
    assert world.cloud.addresses.all(VENDOR) == []


async def test_a_kept_disk_outlives_its_machine() -> None:
    world = StoppedCloud()
    instance = await world.booted(keep_disk=True)
    [disk] = world.cloud.disks.all(VENDOR)
    with pytest.raises(CloudError):
        world.cloud.disks.remove(VENDOR, disk.id)
    world.cloud.terminate(instance)
    await world.pass_s(1)
    assert not paper(instance).erased
    world.cloud.disks.remove(VENDOR, disk.id)
    assert world.cloud.disks.all(VENDOR) == []


async def test_bills_follow_the_clock() -> None:
    world = StoppedCloud()
    instance = await world.booted(spot=True)
    await world.pass_s(3592)
    world.cloud.terminate(instance)
    [entry] = world.cloud.billing_entries(VENDOR)
    assert (entry.billed_s, entry.billed_microusd, entry.cause) == (3600, 900_000, "user")
