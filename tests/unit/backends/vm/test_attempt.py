"""What a look says, and how few calls it takes."""

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
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.machines import MachineListing
from anygpu.backends.vm.options import VmOptions, VmTiming, timing_from_options
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.errors import BackendUnavailable
from anygpu.events.facts import Blame, Failure
from anygpu.events.offers import Handle

OFFER = replace(SMALL, backend="cloud")


async def running(number: int = 1, place: Rented | None = None) -> tuple[Rented, Handle]:
    place = place or rented(MemoryProvider())
    handle = await place.backend.launch(a_launch(number), OFFER)
    place.provider.boot(handle.native["id"])
    await asyncio.sleep(3)
    return place, handle


def test_a_booted_machine_gets_a_link_and_the_control_loop_is_told() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        assert (await place.backend.probe(handle)).state is MachineState.PENDING
        assert place.links == []
        place.changes.clear()
        place.provider.boot()
        await asyncio.sleep(3)
        assert place.links[0].running
        assert place.changes == [handle.name]
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.started_at_ms) == (MachineState.RUNNING, 1000)

    in_virtual_time(story)


def test_a_thousand_looks_are_one_call() -> None:
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


def test_nothing_is_listed_when_nothing_of_ours_lives() -> None:
    async def story() -> None:
        place, handle = await running()
        await place.backend.terminate(handle)
        await asyncio.sleep(120)
        before = place.provider.listings
        await asyncio.sleep(3600)
        assert place.provider.listings == before

    in_virtual_time(story)


def test_who_comes_just_as_a_listing_is_over_gets_the_next_one() -> None:
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


def test_after_a_rest_a_second_listing_follows_at_once_and_the_next_ones_keep_their_distance() -> None:
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


def test_a_machine_that_was_taken_is_told_by_the_first_listing_that_shows_it() -> None:
    async def story() -> None:
        place, handle = await running()
        await asyncio.sleep(100)
        place.links[0].become(LinkState.BROKEN, "connection lost")
        place.provider.change("m-1", power=PowerState.ENDING, preempted=True)
        listing = asyncio.create_task(place.backend.inventory())
        await asyncio.sleep(0.01)
        place.links[0].become(LinkState.BROKEN, "still lost")  # newer than the listing that is under way
        before = place.provider.listings
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.preempted) == (MachineState.EXITED, True)
        assert place.provider.listings == before
        assert handle.name in place.changes
        assert not place.links[0].running  # nobody dials what is gone
        await listing

    in_virtual_time(story)


def test_a_broken_link_asks_the_provider_at_once_and_is_no_verdict_by_itself() -> None:
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


def test_what_the_provider_said_of_an_ended_machine_is_kept_when_it_forgets_it() -> None:
    async def story() -> None:
        place, handle = await running()
        place.provider.change("m-1", power=PowerState.ENDED, preempted=True, ended_at_ms=5_000)
        await asyncio.sleep(60)
        place.provider.machines_made.clear()
        await asyncio.sleep(60)
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.preempted, seen.ended_at_ms) == (MachineState.GONE, True, 5_000)

    in_virtual_time(story)


def test_a_notice_is_passed_on_while_the_machine_still_runs() -> None:
    async def story() -> None:
        place, handle = await running()
        place.changes.clear()
        place.provider.change("m-1", preempted=True)
        await asyncio.sleep(40)
        assert place.changes == [handle.name]
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.preempted) == (MachineState.RUNNING, True)

    in_virtual_time(story)


@pytest.mark.parametrize("power", [PowerState.STOPPED, PowerState.ENDING])
def test_a_machine_that_stops_will_not_run_again_and_may_still_bill(power: PowerState) -> None:
    async def story() -> None:
        place, handle = await running()
        place.provider.change("m-1", power=power)
        await asyncio.sleep(40)
        assert (await place.backend.probe(handle)).state is MachineState.EXITED

    in_virtual_time(story)


def test_a_dead_agent_on_a_running_machine_is_an_exit() -> None:
    async def story() -> None:
        place, handle = await running()
        place.links[0].become(LinkState.EXITED, "the agent died")
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.detail) == (MachineState.EXITED, "the agent died")

    in_virtual_time(story)


def test_a_step_that_failed_for_good_is_told_by_the_look() -> None:
    async def story() -> None:
        place, handle = await running()
        failure = Failure(code="no_python", message="bootstrap: no Python", blame=Blame.LAUNCH)
        place.links[0].failure = failure
        place.links[0].become(LinkState.FAILED)
        assert (await place.backend.probe(handle)).failure == failure

    in_virtual_time(story)


def test_a_machine_that_never_gets_an_address_is_given_up_by_name_of_the_step() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        await asyncio.sleep(590)
        assert (await place.backend.probe(handle)).failure is None
        await asyncio.sleep(20)
        failure = (await place.backend.probe(handle)).failure
        assert failure is not None
        assert (failure.code, failure.blame) == ("no_address", Blame.LAUNCH)
        assert failure.message.startswith("waiting for an address: machine m-1")

    in_virtual_time(story)


def test_a_provider_that_does_not_answer_makes_a_look_fail_and_proves_nothing() -> None:
    async def story() -> None:
        place, handle = await running()
        place.provider.list_error = BackendUnavailable("503")
        assert (
            await place.backend.probe(handle)
        ).state is MachineState.RUNNING  # what was listed is new enough
        await asyncio.sleep(120)
        with pytest.raises(BackendUnavailable, match="503"):
            await place.backend.probe(handle)
        place.provider.list_error = None
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING

    in_virtual_time(story)


def test_a_machine_missing_from_one_list_keeps_its_link() -> None:
    async def story() -> None:
        place, handle = await running()
        hidden = place.provider.machines_made.pop("m-1")
        await asyncio.sleep(35)
        assert (await place.backend.probe(handle)).state is MachineState.ABSENT
        place.provider.machines_made["m-1"] = hidden
        await asyncio.sleep(35)
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING
        assert [link.running for link in place.links] == [True]

    in_virtual_time(story)


def test_a_restarted_server_links_to_the_machine_it_finds_with_the_ticket_from_the_handle() -> None:
    async def story() -> None:
        place, handle = await running()
        restarted = rented(place.provider)
        assert (await restarted.backend.probe(handle)).state is MachineState.RUNNING
        assert restarted.links[0].running
        assert restarted.links[0].attempt.launch == a_launch()
        assert "ticket" not in str(handle.native)

    in_virtual_time(story)


def test_a_handle_sealed_by_another_server_is_no_reason_to_fail() -> None:
    async def story() -> None:
        place, handle = await running()
        stranger = rented(place.provider, secret=b"another")
        assert (await stranger.backend.probe(handle)).state is MachineState.ABSENT
        assert stranger.links == []

    in_virtual_time(story)


def test_how_long_each_step_may_take_is_an_option_of_the_backend() -> None:
    timing = timing_from_options(VmOptions(ready_s=20, ssh_s=10, bootstrap_s=5))
    assert (timing.address_timeout_s, timing.ssh.patience_s, timing.ssh.bootstrap_s) == (20, 10, 5)
    assert timing_from_options(VmOptions()) == VmTiming()
