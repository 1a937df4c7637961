"""Observations of attempts on rented machines."""

import asyncio
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
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.provider import PowerState
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


def test_a_booted_machine_gets_a_link_and_a_change_is_reported() -> None:
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


def test_a_reclaimed_machine_is_reported_by_the_first_listing_that_shows_it() -> None:
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


def test_an_ended_machine_stays_known_after_the_provider_drops_it() -> None:
    async def story() -> None:
        place, handle = await running()
        place.provider.change("m-1", power=PowerState.ENDED, preempted=True, ended_at_ms=5_000)
        await asyncio.sleep(60)
        place.provider.machines_made.clear()
        await asyncio.sleep(60)
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.preempted, seen.ended_at_ms) == (MachineState.GONE, True, 5_000)

    in_virtual_time(story)


def test_a_preemption_notice_is_reported_while_the_machine_runs() -> None:
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
        place.links[0].become(LinkState.EXITED, "the agent on the machine has died")
        seen = await place.backend.probe(handle)
        assert (seen.state, seen.detail) == (MachineState.EXITED, "the agent on the machine has died")

    in_virtual_time(story)


def test_a_failed_startup_step_is_reported_by_the_probe() -> None:
    async def story() -> None:
        place, handle = await running()
        failure = Failure(code="no_python", message="bootstrap: no Python", blame=Blame.LAUNCH)
        place.links[0].failure = failure
        place.links[0].become(LinkState.FAILED)
        assert (await place.backend.probe(handle)).failure == failure

    in_virtual_time(story)


def test_a_machine_without_an_address_fails_with_the_name_of_the_step() -> None:
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


def test_a_probe_fails_when_the_provider_does_not_answer() -> None:
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


def test_a_handle_encrypted_by_another_server_is_ignored() -> None:
    async def story() -> None:
        place, handle = await running()
        stranger = rented(place.provider, secret=b"another")
        assert (await stranger.backend.probe(handle)).state is MachineState.ABSENT
        assert stranger.links == []

    in_virtual_time(story)
