"""Nothing is left: machines, twins, keys, and what was ordered without an answer."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.backends.vm.memory_provider import SMALL, MemoryProvider, a_launch, in_virtual_time, rented

from anygpu.backends.contract import (
    Leftover,
    MachineState,
    SupportsLeftovers,
    SupportsMetering,
    SupportsShell,
)
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.machines import machine_tag
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.errors import BackendUnavailable, NotFound
from anygpu.events.offers import Handle

OFFER = replace(SMALL, backend="cloud")
NAME = a_launch().name


@pytest.mark.parametrize("shows_ended", [True, False])
def test_the_provider_confirms_a_termination(shows_ended: bool) -> None:
    async def story() -> None:
        place = rented(MemoryProvider(shows_ended=shows_ended))
        handle = await place.backend.launch(a_launch(), OFFER)
        place.provider.boot()
        await place.backend.probe(handle)
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE
        assert place.alive == []
        assert await place.backend.inventory() == []
        assert not any(link.running for link in place.links)

    in_virtual_time(story)


def test_a_machine_that_is_not_listed_yet_is_destroyed_by_its_id() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(idempotent=True, listing_lag_s=30))
        handle = await place.backend.launch(a_launch(), OFFER)
        await place.backend.terminate(handle)
        assert place.alive == []

    in_virtual_time(story)


def test_a_create_without_an_answer_is_not_gone_until_the_list_must_show_it() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(idempotent=True, listing_lag_s=10, lost_answers=1))
        with pytest.raises(TimeoutError):
            await place.backend.launch(a_launch(), OFFER)
        handle = Handle(name=NAME)
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.PENDING
        await asyncio.sleep(15)
        assert (await place.backend.probe(handle)).state is MachineState.PENDING  # it showed up, and starts
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE
        assert place.alive == []

    in_virtual_time(story)


def test_all_duplicates_are_destroyed() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        place.provider.add(place.provider.machines_made["m-1"].name, power=PowerState.RUNNING)
        await place.backend.terminate(handle)
        await asyncio.sleep(5)
        assert place.alive == []

    in_virtual_time(story)


def test_terminating_again_does_not_repeat_a_recent_destroy() -> None:
    class Slow(MemoryProvider):
        async def destroy(self, machine: CloudMachine) -> None:
            self.destroyed.append(machine.id)
            self.change(machine.id, power=PowerState.ENDING)

    async def story() -> None:
        place = rented(Slow())
        handle = await place.backend.launch(a_launch(), OFFER)
        for _ in range(20):
            await place.backend.terminate(handle)
            assert (await place.backend.probe(handle)).state is MachineState.EXITED
            await asyncio.sleep(0.5)
        assert place.provider.destroyed == ["m-1"]
        await asyncio.sleep(30)
        await place.backend.terminate(handle)
        assert place.provider.destroyed == ["m-1", "m-1"]

    in_virtual_time(story)


def test_a_destroy_that_fails_is_raised_and_repeated() -> None:
    class Refusing(MemoryProvider):
        refusals = 1

        async def destroy(self, machine: CloudMachine) -> None:
            if self.refusals:
                self.refusals -= 1
                raise BackendUnavailable("try later")
            await super().destroy(machine)

    async def story() -> None:
        place = rented(Refusing())
        handle = await place.backend.launch(a_launch(), OFFER)
        with pytest.raises(BackendUnavailable):
            await place.backend.terminate(handle)
        await place.backend.terminate(handle)
        assert place.alive == []

    in_virtual_time(story)


def test_a_leftover_key_is_removed_with_its_attempt_only() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        mark = machine_tag(b"secret")
        mine = Leftover(kind="key", id="k1", name=f"{NAME}-{mark}")
        place.provider.left = [
            mine,
            replace(mine, id="k2", name=f"other-{mark}"),
            replace(mine, id="k3", name="theirs"),
        ]
        assert [(left.id, left.name) for left in await place.backend.leftovers()] == [
            ("k1", NAME),
            ("k2", "other"),
        ]
        await place.backend.terminate(Handle(name=NAME))
        assert [left.id for left in place.provider.left] == ["k2", "k3"]

    in_virtual_time(story)


def test_a_preempted_machine_that_ended_is_gone_without_another_listing() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        place.provider.boot()
        await asyncio.sleep(3)
        place.provider.change("m-1", power=PowerState.ENDED, preempted=True)
        await asyncio.sleep(40)
        before = place.provider.listings
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE
        assert place.provider.listings == before
        assert place.provider.destroyed == ["m-1"]  # its key or address may still be there

    in_virtual_time(story)


def test_a_shell_needs_a_running_machine() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        with pytest.raises(NotFound, match="waits to start"):
            await place.backend.shell(handle)
        place.provider.boot()
        await asyncio.sleep(3)
        shell = await place.backend.shell(handle)
        assert (shell.host, shell.port, shell.user) == ("127.0.0.9", 22, "ubuntu")
        assert "OPENSSH PRIVATE KEY" in shell.private_key

    in_virtual_time(story)


@pytest.mark.parametrize(("exit_code", "delivered"), [(1, [NAME]), (0, []), (None, [NAME])])
def test_reports_of_a_dead_agent_are_sent_before_its_machine_is_destroyed(
    exit_code: int | None, delivered: list[str]
) -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        handle = await place.backend.launch(a_launch(), OFFER)
        place.provider.boot()
        await asyncio.sleep(3)
        place.links[0].become(LinkState.EXITED, exit_code=exit_code)
        await place.backend.terminate(handle)
        assert place.delivered == delivered
        await place.backend.deliver(handle)
        assert place.delivered == delivered  # the machine is gone, and what was on it

    in_virtual_time(story)


def test_only_a_backend_with_a_metered_provider_supports_metering() -> None:
    class Metered(MemoryProvider):
        async def metered_microusd(self, machine: CloudMachine) -> int | None:
            return 77 if machine.id == "m-1" else None

    async def story() -> None:
        plain, metered = rented(MemoryProvider()).backend, rented(Metered()).backend
        assert not isinstance(plain, SupportsMetering)
        assert isinstance(metered, SupportsMetering)
        assert isinstance(plain, SupportsLeftovers)
        assert isinstance(plain, SupportsShell)
        handle = await metered.launch(a_launch(), OFFER)
        assert await metered.metered_microusd(handle) == 77

    in_virtual_time(story)


def test_closing_keeps_the_machines_running() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        await place.backend.launch(a_launch(), OFFER)
        place.provider.boot()
        await asyncio.sleep(3)
        await place.backend.close()
        assert place.provider.destroyed == ["closed"]
        assert place.alive == ["m-1"]
        assert not place.links[0].running

    in_virtual_time(story)
