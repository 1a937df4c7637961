"""Attempts on several rented machines: all are created or none, whatever happens between two of them."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from tests.unit.backends.vm.memory_provider import SMALL, MemoryProvider, a_launch, in_virtual_time, rented

from anygpu.backends.contract import MachineState
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import CloudMachine, MachineOrder
from anygpu.errors import NoCapacity, RateLimited
from anygpu.events.offers import Handle

OFFER = replace(SMALL, backend="cloud", max_nodes=4)
LAUNCH = a_launch(nodes=3)
OPTIONS = VmOptions(max_machines=4)


@dataclass
class ChoosyProvider(MemoryProvider):
    """A provider that answers the next request for a node ("" for node 0) with an error."""

    errors: dict[str, Exception] = field(default_factory=dict)

    async def create(self, order: MachineOrder) -> CloudMachine:
        node = order.name.removeprefix(LAUNCH.name).rpartition("-")[0]  # without the tag of the server
        error = self.errors.pop(node, None)
        if error is not None:
            raise error
        return await super().create(order)


def test_a_refused_node_leaves_no_machine() -> None:
    async def story() -> None:
        place = rented(ChoosyProvider(errors={"-n2": NoCapacity("none left")}), OPTIONS)
        with pytest.raises(NoCapacity):
            await place.backend.launch(LAUNCH, OFFER)
        assert place.alive == []
        handle = Handle(name=LAUNCH.name)
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state is MachineState.GONE

    in_virtual_time(story)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_throttled_node_is_created_by_the_next_call_and_the_others_are_kept(idempotent: bool) -> None:
    async def story() -> None:
        errors: dict[str, Exception] = {"-n1": RateLimited("too many requests")}
        place = rented(ChoosyProvider(idempotent=idempotent, errors=errors), OPTIONS)
        with pytest.raises(RateLimited):
            await place.backend.launch(LAUNCH, OFFER)
        handle = await place.backend.launch(LAUNCH, OFFER)
        assert len(place.alive) == len(place.provider.machines_made) == 3
        assert len(handle.native["nodes"]) == 2
        await place.backend.terminate(handle)
        assert place.alive == []

    in_virtual_time(story)


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_lost_answer_creates_no_second_machine(idempotent: bool) -> None:
    async def story() -> None:
        place = rented(MemoryProvider(idempotent=idempotent, listing_lag_s=5, lost_answers=2), OPTIONS)
        with pytest.raises(TimeoutError):
            await place.backend.launch(LAUNCH, OFFER)
        await place.backend.launch(LAUNCH, OFFER)
        assert len(place.alive) == len(place.provider.machines_made) == 3

    in_virtual_time(story)


def test_a_refusal_and_a_lost_answer_leave_no_machine() -> None:
    async def story() -> None:
        provider = ChoosyProvider(listing_lag_s=5, lost_answers=1, errors={"-n1": NoCapacity("none left")})
        place = rented(provider, OPTIONS)
        with pytest.raises(NoCapacity):
            await place.backend.launch(LAUNCH, OFFER)
        handle = Handle(name=LAUNCH.name)
        for _ in range(4):  # as the control loop does, until the provider confirms it
            await place.backend.terminate(handle)
            await asyncio.sleep(5)
        assert (await place.backend.probe(handle)).state is MachineState.GONE
        assert place.alive == []

    in_virtual_time(story)


def test_a_server_that_was_killed_between_two_machines_creates_only_the_missing_ones() -> None:
    async def story() -> None:
        provider = ChoosyProvider(errors={"-n1": TimeoutError("killed"), "-n2": TimeoutError("killed")})
        with pytest.raises(TimeoutError):
            await rented(provider, OPTIONS).backend.launch(LAUNCH, OFFER)
        assert len(provider.machines_made) == 1
        await rented(provider, OPTIONS).backend.launch(LAUNCH, OFFER)
        assert len(provider.alive()) == len(provider.machines_made) == 3

    in_virtual_time(story)


def test_a_cancelled_launch_of_a_killed_server_leaves_no_machine() -> None:
    async def story() -> None:
        provider = ChoosyProvider(errors={"": TimeoutError("killed")})
        with pytest.raises(TimeoutError):
            await rented(provider, OPTIONS).backend.launch(LAUNCH, OFFER)
        assert len(provider.alive()) == 2
        place, handle = rented(provider, OPTIONS), Handle(name=LAUNCH.name)
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state in (MachineState.GONE, MachineState.ABSENT)
        assert place.alive == []

    in_virtual_time(story)
