"""One machine for one name, whatever times out, is repeated, or is not listed yet."""

import asyncio
import time
from dataclasses import replace

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
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import PowerState
from anygpu.errors import LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer

OFFER = replace(SMALL, backend="cloud")


async def launch(place: Rented, number: int = 1, offer: Offer = OFFER) -> Handle:
    return await place.backend.launch(a_launch(number), offer)


def test_launching_a_name_twice_creates_one_machine() -> None:
    async def story() -> None:
        for idempotent in (True, False):
            place = rented(MemoryProvider(idempotent=idempotent))
            first, again = await launch(place), await launch(place)
            assert first.native["id"] == again.native["id"] == "m-1"
            assert len(place.provider.machines_made) == 1

    in_virtual_time(story)


def test_launching_a_name_twice_concurrently_creates_one_machine() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handles = await asyncio.gather(launch(place), launch(place))
        assert {h.native["id"] for h in handles} == {"m-1"}

    in_virtual_time(story)


def test_a_create_that_timed_out_and_succeeded_is_found_by_the_next_launch_despite_list_lag() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(listing_lag_s=20, lost_answers=1))
        with pytest.raises(TimeoutError):
            await launch(place)
        handle = await launch(place)
        assert handle.native["id"] == "m-1"
        assert len(place.provider.orders) == 1

    in_virtual_time(story)


def test_a_create_without_an_answer_is_repeated_after_the_list_lag() -> None:
    async def story() -> None:
        provider = MemoryProvider(listing_lag_s=20, create_error=ConnectionError("cut"))
        place = rented(provider)
        with pytest.raises(ConnectionError):
            await launch(place)
        failed_at = asyncio.get_running_loop().time()
        provider.create_error = None
        await launch(place)
        assert asyncio.get_running_loop().time() - failed_at >= 20
        assert len(place.alive) == 1

    in_virtual_time(story)


def test_a_restarted_server_waits_for_machines_its_predecessor_may_have_created() -> None:
    async def story() -> None:
        provider = MemoryProvider(listing_lag_s=20, lost_answers=1)
        with pytest.raises(TimeoutError):
            await launch(rented(provider))
        handle = await launch(rented(provider))
        assert handle.native["id"] == "m-1"
        assert len(provider.orders) == 1

    in_virtual_time(story)


def test_a_job_younger_than_the_server_waits_for_no_predecessor() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(listing_lag_s=20))
        in_a_minute = f"{round(time.time() * 1000) + 60_000:012x}"
        young = f"{in_a_minute[:8]}-{in_a_minute[8:]}-7bab-abab-abababababab"
        await place.backend.launch(a_launch(job_id=young), OFFER)
        assert asyncio.get_running_loop().time() < 1

    in_virtual_time(story)


def test_an_idempotent_provider_is_called_without_waiting() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(idempotent=True, listing_lag_s=60, lost_answers=1))
        with pytest.raises(TimeoutError):
            await launch(place)
        await launch(place)
        assert asyncio.get_running_loop().time() < 10
        assert len(place.alive) == 1

    in_virtual_time(story)


def test_a_refused_attempt_is_gone_at_once() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(listing_lag_s=60, create_error=NoCapacity("none left")))
        with pytest.raises(NoCapacity):
            await launch(place)
        handle = Handle(name=a_launch(1).name)
        began = asyncio.get_running_loop().time()
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE
        assert asyncio.get_running_loop().time() - began < 1

    in_virtual_time(story)


def test_a_refusal_is_raised_and_the_next_launch_does_not_wait() -> None:
    async def story() -> None:
        provider = MemoryProvider(listing_lag_s=0, create_error=NoCapacity("none left"))
        place = rented(provider)
        with pytest.raises(NoCapacity, match="none left"):
            await launch(place)
        provider.create_error = None
        assert (await launch(place)).native["id"] == "m-1"

    in_virtual_time(story)


def test_duplicates_are_destroyed_and_the_machine_with_the_agent_stays() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await launch(place)
        place.provider.boot()
        await place.backend.probe(handle)
        marked = place.provider.machines_made["m-1"].name
        place.provider.add(marked, power=PowerState.RUNNING)
        await asyncio.sleep(60)
        assert place.alive == ["m-1"]

    in_virtual_time(story)


def test_the_oldest_duplicate_stays_if_none_has_an_agent() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(lost_answers=1))
        with pytest.raises(TimeoutError):
            await launch(place)
        place.provider.add(place.provider.machines_made["m-1"].name)
        assert (await launch(place)).native["id"] == "m-1"
        await asyncio.sleep(60)
        assert place.alive == ["m-1"]

    in_virtual_time(story)


def test_concurrent_launches_do_not_exceed_the_limit() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(), VmOptions(max_machines=2))
        tries = await asyncio.gather(*(launch(place, n) for n in range(1, 6)), return_exceptions=True)
        refused = [t for t in tries if isinstance(t, NoCapacity)]
        assert len(refused) == 3
        assert "2 of 2 machines" in str(refused[0])
        assert len(place.alive) == 2

    in_virtual_time(story)


def test_an_offer_refused_by_the_configuration_is_not_launched() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        with pytest.raises(LaunchRefused, match="too dear"):
            await launch(place, offer=replace(OFFER, refused="too dear"))
        assert place.alive == []

    in_virtual_time(story)


def test_a_machine_ends_by_itself_an_hour_after_the_run_time_limit() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        await place.backend.launch(a_launch(1, max_run_s=7200), OFFER)
        await place.backend.launch(a_launch(2), OFFER)
        said, unsaid = place.provider.orders
        assert (said.max_life_s, unsaid.max_life_s) == (10_800, 28_800)
        assert said.startup_script.startswith("#!/bin/sh\nshutdown -h +180 ")
        assert "shutdown -h +480 " in unsaid.startup_script

    in_virtual_time(story)


def test_a_created_machine_is_pending_until_the_list_must_show_it() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(idempotent=True, listing_lag_s=30))
        handle = await launch(place)
        assert (await place.backend.probe(handle)).state is MachineState.PENDING
        del place.provider.machines_made["m-1"]
        await asyncio.sleep(40)
        assert (await place.backend.probe(handle)).state is MachineState.ABSENT

    in_virtual_time(story)


def test_machines_of_another_server_in_the_same_account_are_ignored() -> None:
    async def story() -> None:
        provider = MemoryProvider()
        ours, theirs = rented(provider, secret=b"ours"), rented(provider, secret=b"theirs")
        await launch(theirs)
        assert await ours.backend.inventory() == []
        assert [h.name for h in await theirs.backend.inventory()] == [a_launch().name]
        await ours.backend.terminate(Handle(name=a_launch().name))
        assert provider.alive() == ["m-1"]

    in_virtual_time(story)
