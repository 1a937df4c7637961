"""The simulated cloud without sockets: machines on paper, and a clock that only moves when told."""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from anygpu.testing.cloud.clock import SimClock
from anygpu.testing.cloud.cloud import Cloud, Limits
from anygpu.testing.cloud.faults import Fault, Kind
from anygpu.testing.cloud.instance import Cause, Instance, Order, State
from anygpu.testing.cloud.lifecycle import Timing
from anygpu.testing.cloud.market import Market, Trace
from anygpu.testing.cloud.paper import PaperMachine
from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.vendor import MachineType, Vendor

VENDOR = Vendor(
    name="v",
    regions={"r": ("ra", "rb")},
    types=(
        MachineType(name="a", price_microusd_per_hour=3_600_000, spot_microusd_per_hour=900_000, vcpus=4),
    ),
    credentials={"key": ""},
)


class World:
    """A cloud at a standstill: `pass_s` lets time and every task go on."""

    def __init__(self, market: Market | None = None, limits: Limits | None = None) -> None:
        self.clock = SimClock(wall=lambda: 0.0)
        addresses: Iterator[str] = (f"127.77.0.{host}" for host in itertools.count(1))
        self.cloud = Cloud(
            self.clock,
            PaperMachine,
            lambda: next(addresses),
            market=market,
            limits=limits,
            timing=Timing(boot_s=8, ending_s=1, notice_s=120),
            seed=1,
        )

    async def pass_s(self, seconds: float) -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        self.clock.advance(seconds)
        for _ in range(20):
            await asyncio.sleep(0)

    async def booted(self, **wanted: object) -> Instance:
        instance = self.cloud.rent(order(**wanted))
        await self.pass_s(2)
        await self.pass_s(6)
        assert instance.booted_at_ms is not None
        return instance


def order(**wanted: object) -> Order:
    return Order(**{"vendor": VENDOR, "type": "a", "region": "r", **wanted})  # type: ignore[arg-type]


def paper(instance: Instance) -> PaperMachine:
    assert isinstance(instance.body, PaperMachine)
    return instance.body


async def test_a_machine_is_pending_then_running_then_ready() -> None:
    world = World()
    instance = world.cloud.rent(order())
    assert (instance.state, instance.address) == (State.PENDING, "")
    await world.pass_s(2)
    assert (instance.state, instance.address, instance.booted_at_ms) == (State.RUNNING, "127.77.0.1", None)
    await world.pass_s(6)
    assert instance.booted_at_ms == 8000
    assert paper(instance).answers_at == {"127.77.0.1"}


async def test_an_ended_machine_stops_at_once_and_is_gone_a_little_later() -> None:
    world = World()
    instance = await world.booted()
    world.cloud.end(instance)
    world.cloud.end(instance)
    assert (instance.state, instance.stopped_at_ms) == (State.ENDING, 8000)
    await world.pass_s(1)
    assert (instance.state, instance.ended_at_ms, instance.cause) == (State.ENDED, 9000, Cause.USER)
    assert (paper(instance).up, paper(instance).erased) == (False, True)
    assert world.cloud.disks_of(VENDOR) == []


async def test_a_machine_ended_while_it_boots_never_comes_up() -> None:
    world = World()
    instance = world.cloud.rent(order())
    await world.pass_s(3)
    world.cloud.end(instance)
    await world.pass_s(20)
    assert (instance.state, paper(instance).up, instance.booted_at_ms) == (State.ENDED, False, None)


async def test_the_same_client_token_is_the_same_machine_and_other_parameters_are_refused() -> None:
    cloud = World().cloud
    first = cloud.rent(order(client_token="t", parameters="p"))
    assert cloud.rent(order(client_token="t", parameters="p")) is first
    with pytest.raises(Refusal) as refused:
        cloud.rent(order(client_token="t", parameters="q"))
    assert refused.value.why is Why.MISMATCH
    assert cloud.rent(order()) is not cloud.rent(order())


async def test_capacity_quota_and_faults_refuse_in_their_own_way() -> None:
    cloud = World(limits=Limits(capacity={"a": 1}, vcpus={"v": 8})).cloud
    cloud.rent(order())
    for wanted, why in (({}, Why.NO_CAPACITY), ({"type": "b"}, Why.INVALID), ({"region": "x"}, Why.INVALID)):
        with pytest.raises(Refusal) as refused:
            cloud.rent(order(**wanted))
        assert refused.value.why is why
    cloud = World(limits=Limits(vcpus={"v": 7})).cloud
    cloud.rent(order())
    with pytest.raises(Refusal) as refused:
        cloud.rent(order())
    assert refused.value.why is Why.QUOTA


async def test_calls_with_unknown_credentials_or_too_many_are_refused() -> None:
    cloud = World().cloud
    cloud.admit(VENDOR, "list", credential="key")
    with pytest.raises(Refusal) as refused:
        cloud.admit(VENDOR, "list", credential="other")
    assert refused.value.why is Why.BAD_CREDENTIALS
    cloud.faults.add(Fault(kind=Kind.THROTTLE, operation="list", times=1))
    with pytest.raises(Refusal) as refused:
        cloud.admit(VENDOR, "list", credential="key")
    assert refused.value.why is Why.THROTTLED


async def test_a_preempted_machine_hears_of_it_and_is_taken_when_the_notice_is_over() -> None:
    world = World()
    instance = await world.booted(spot=True)
    world.cloud.preempt(instance.id, notice_s=30)
    assert (instance.notice_at_ms, instance.taken_at_ms, instance.state) == (8000, 38_000, State.RUNNING)
    await world.pass_s(30)
    assert (instance.cause, instance.stopped_at_ms) == (Cause.PREEMPTED, 38_000)


async def test_without_notice_it_is_taken_at_once() -> None:
    world = World()
    instance = await world.booted(spot=True)
    world.cloud.preempt(instance.id, notice_s=0)
    assert instance.state is State.ENDING


async def test_when_the_trace_says_so_spot_machines_are_taken_and_others_are_not() -> None:
    world = World(market=Market(traces=[Trace(600, (True, False, True))]))
    spot, lasting = await world.booted(spot=True), world.cloud.rent(order())
    await world.pass_s(600)
    assert spot.notice_at_ms == 600_000
    with pytest.raises(Refusal):
        world.cloud.rent(order(spot=True))
    await world.pass_s(600)
    await world.pass_s(2)
    assert (spot.state, lasting.state) == (State.ENDED, State.RUNNING)
    assert world.cloud.rent(order(spot=True)).state is State.PENDING


@pytest.mark.parametrize(
    ("on_halt", "state"), [("end", State.ENDED), ("stop", State.STOPPED), ("off", State.STOPPED)]
)
async def test_a_halt_does_what_the_order_says(on_halt: str, state: State) -> None:
    world = World()
    instance = await world.booted(on_halt=on_halt)
    world.cloud.lifecycle.power_off(instance, 60)
    await world.pass_s(60)
    await world.pass_s(2)
    assert (instance.state, instance.cause, paper(instance).up) == (state, Cause.HALT, False)


async def test_a_later_shutdown_replaces_the_earlier_and_can_be_taken_back() -> None:
    world = World()
    instance = await world.booted(on_halt="end")
    world.cloud.lifecycle.power_off(instance, 60)
    world.cloud.lifecycle.power_off(instance, 120)
    await world.pass_s(60)
    assert instance.state is State.RUNNING
    world.cloud.lifecycle.cancel_power_off(instance)
    await world.pass_s(600)
    assert instance.state is State.RUNNING


async def test_a_provider_can_end_a_machine_when_its_longest_life_is_over() -> None:
    world = World()
    instance = await world.booted(max_life_s=3600)
    await world.pass_s(3600)
    assert instance.cause is Cause.EXPIRED


async def test_lists_that_lag_lack_new_machines_and_show_ended_ones() -> None:
    world = World()
    old = await world.booted()
    world.cloud.faults.add(Fault(kind=Kind.LISTING_LAG, seconds=30))
    await world.pass_s(60)
    new = world.cloud.rent(order())
    world.cloud.end(old)
    assert [(each.id, each.state) for each in world.cloud.listed(VENDOR)] == [(old.id, State.RUNNING)]
    assert world.cloud.find(VENDOR, old.id).state is State.ENDING
    await world.pass_s(31)
    assert {each.id: each.state.over for each in world.cloud.listed(VENDOR)} == {old.id: True, new.id: False}


async def test_ended_machines_are_forgotten_after_a_while() -> None:
    world = World()
    instance = await world.booted()
    world.cloud.end(instance)
    await world.pass_s(1)
    assert world.cloud.listed(VENDOR, forget_s=10)
    await world.pass_s(10)
    assert world.cloud.listed(VENDOR, forget_s=10) == []


@pytest.mark.parametrize(
    ("kind", "ready", "answers"),
    [(Kind.BOOT_HANGS, False, False), (Kind.SSH_REFUSED, True, False), (Kind.DISK_FULL, True, True)],
)
async def test_a_fault_waits_for_the_machine_that_boots(kind: Kind, ready: bool, answers: bool) -> None:
    world = World()
    world.cloud.faults.add(Fault(kind=kind, bytes=5))
    instance = world.cloud.rent(order())
    await world.pass_s(2)
    await world.pass_s(60)
    assert (instance.state, instance.booted_at_ms is not None) == (State.RUNNING, ready)
    assert bool(paper(instance).answers_at) is answers
    assert paper(instance).file_bytes == (5 if kind is Kind.DISK_FULL else None)


async def test_an_address_rented_by_itself_is_answered_once_it_is_associated() -> None:
    world = World()
    instance = await world.booted(public_address=False)
    assert (instance.address, paper(instance).answers_at) == ("", set())
    address = world.cloud.addresses.allocate(VENDOR, "r")
    await world.cloud.associate(address, instance)
    assert paper(instance).answers_at == {address.ip} == {instance.address}
    with pytest.raises(Refusal):
        world.cloud.addresses.release(address)
    world.cloud.end(instance)
    await world.pass_s(1)
    assert address.instance == ""
    world.cloud.addresses.release(address)
    assert world.cloud.addresses.all(VENDOR) == []


async def test_a_disk_that_is_kept_is_left_behind() -> None:
    world = World()
    instance = await world.booted(keeps_disk=True)
    [disk] = world.cloud.disks_of(VENDOR)
    with pytest.raises(Refusal):
        world.cloud.disks.remove(VENDOR, disk.id)
    world.cloud.end(instance)
    await world.pass_s(1)
    assert not paper(instance).erased
    world.cloud.disks.remove(VENDOR, disk.id)
    assert world.cloud.disks_of(VENDOR) == []


async def test_the_books_follow_the_clock() -> None:
    world = World()
    instance = await world.booted(spot=True)
    await world.pass_s(3592)
    world.cloud.end(instance)
    [entry] = world.cloud.entries(VENDOR)
    assert (entry.billed_s, entry.billed_microusd, entry.cause) == (3600, 900_000, "user")
