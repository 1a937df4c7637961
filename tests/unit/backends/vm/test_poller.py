"""How often the provider's machines are listed."""

import asyncio
from dataclasses import replace

from tests.unit.backends.vm.memory_provider import (
    SMALL,
    MemoryProvider,
    Rented,
    a_launch,
    in_virtual_time,
    rented,
)

from anygpu.backends.contract import MachineState
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.provider import PowerState
from anygpu.events.offers import Handle

OFFER = replace(SMALL, backend="cloud")


async def running(number: int = 1, place: Rented | None = None) -> tuple[Rented, Handle]:
    place = place or rented(MemoryProvider())
    handle = await place.backend.launch(a_launch(number), OFFER)
    place.provider.boot(handle.native["id"])
    await asyncio.sleep(3)
    return place, handle


def test_a_healthy_machine_is_listed_every_half_minute_and_a_booting_one_twice_a_second() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        before = place.provider.listings
        await asyncio.sleep(20)
        assert 30 <= place.provider.listings - before <= 41
        place.provider.boot(handle.native["id"])
        await asyncio.sleep(130)
        before = place.provider.listings
        await asyncio.sleep(300)
        assert 9 <= place.provider.listings - before <= 11

    in_virtual_time(story)


def test_nothing_is_listed_when_no_attempt_runs() -> None:
    async def story() -> None:
        place, handle = await running()
        await place.backend.terminate(handle)
        await asyncio.sleep(120)
        before = place.provider.listings
        await asyncio.sleep(3600)
        assert place.provider.listings == before

    in_virtual_time(story)


def test_a_broken_link_lists_at_once_and_does_not_fail_the_attempt() -> None:
    async def story() -> None:
        place, handle = await running()
        await asyncio.sleep(100)
        place.changes.clear()
        before = place.provider.listings
        place.links[0].become(LinkState.BROKEN, "connection lost")
        seen = await place.backend.probe(handle)
        assert place.provider.listings == before + 1
        assert (seen.state, seen.detail) == (MachineState.RUNNING, "connection lost")
        assert place.changes == []  # the provider had nothing to tell

    in_virtual_time(story)


def test_a_preempted_machine_is_seen_within_the_listing_that_follows_its_broken_link() -> None:
    async def story() -> None:
        place, handle = await running()
        await asyncio.sleep(100)
        place.provider.change(
            "m-1", power=PowerState.ENDED, preempted=True, ended_at_ms=5_000, detail="taken back"
        )
        began = asyncio.get_running_loop().time()
        place.links[0].become(LinkState.BROKEN)
        seen = await place.backend.probe(handle)
        assert asyncio.get_running_loop().time() - began < 0.2
        assert (seen.state, seen.preempted, seen.ended_at_ms) == (MachineState.GONE, True, 5_000)
        assert seen.detail == "taken back"

    in_virtual_time(story)
