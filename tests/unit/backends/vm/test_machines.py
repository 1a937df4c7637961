"""Listings that all attempts share."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.backends.vm.memory_provider import (
    SMALL,
    MemoryProvider,
    Rented,
    a_launch,
    in_virtual_time,
    rented,
)

from anygpu.backends.contract import MachineState
from anygpu.backends.vm.machines import MachineListing
from anygpu.backends.vm.provider import CloudMachine
from anygpu.events.offers import Handle

OFFER = replace(SMALL, backend="cloud")


async def running(number: int = 1, place: Rented | None = None) -> tuple[Rented, Handle]:
    place = place or rented(MemoryProvider())
    handle = await place.backend.launch(a_launch(number), OFFER)
    place.provider.boot(handle.native["id"])
    await asyncio.sleep(3)
    return place, handle


def test_a_thousand_probes_share_one_call() -> None:
    async def story() -> None:
        place, _ = await running()
        for number in range(2, 10):
            await running(number, place)
        await asyncio.sleep(60)
        before = place.provider.listings
        names = [h.name for h in await place.backend.inventory()]
        looks = [place.backend.probe(Handle(name=name)) for name in names * 100]
        assert {seen.state for seen in await asyncio.gather(*looks)} == {MachineState.RUNNING}
        assert place.provider.listings - before == 1  # the inventory's

    in_virtual_time(story)


def test_a_caller_that_comes_as_a_listing_finishes_gets_the_next_one() -> None:
    """That listing is done and has not been cleared away yet: waiting for it would not wait at all."""

    async def story() -> None:
        listing = MachineListing(no_machines, pause_s=0, on_listed=lambda snapshot: late())
        clock = asyncio.get_running_loop()
        found: list[Any] = []

        def late() -> None:
            if not found:
                found.append(asyncio.create_task(listing.newer_than(clock.time() + 1)))

        first = await listing.newer_than(clock.time())
        await asyncio.sleep(2)
        assert (await found[0]).began_at > first.began_at

    in_virtual_time(story)


def test_after_a_pause_two_listings_may_follow_at_once_and_later_ones_wait() -> None:
    async def story() -> None:
        clock, listing = (
            asyncio.get_running_loop(),
            MachineListing(no_machines, pause_s=1, on_listed=lambda _: None),
        )
        for rest_s in (0, 100):
            await asyncio.sleep(rest_s)
            began = clock.time()
            lists = [await listing.newer_than(clock.time()) for _ in range(5)]
            # each takes 0.5 s, and of a provider's time no more than a quarter is asked for
            assert [each.began_at - began for each in lists] == pytest.approx([0, 0.5, 2, 4, 6])

    in_virtual_time(story)


async def no_machines() -> list[CloudMachine]:
    await asyncio.sleep(0.5)
    return []
