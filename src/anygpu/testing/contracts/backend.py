"""Tests that every backend must pass.

To test a backend, subclass `BackendContract` and provide the fixture `place`, a `BackendUnderTest`.
"""

import asyncio
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Protocol

import pytest

from anygpu.backends.contract import Backend, LaunchRequest, MachineState, Observation, SupportsInventory
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

NEED = Resources()
LIMIT_S = 60.0  # far above what any step takes, as the machine may be busy
BUSY = (MachineState.PENDING, MachineState.RUNNING)


class BackendUnderTest(Protocol):
    """A backend to test. The attempts that the tests launch on it run until they are terminated."""

    @property
    def backend(self) -> Backend: ...
    @property
    def agent_url(self) -> str: ...

    def count_agents(self) -> int:
        """Return how many agents have connected and taken over an attempt."""
        ...


def new_launch(place: BackendUnderTest, number: int = 1) -> LaunchRequest:
    """Return a launch request with a name that no other suite uses, because suites run in parallel."""
    name = f"anygpu-{sha256(place.agent_url.encode()).hexdigest()[:32]}-{number}"
    return LaunchRequest(
        name=name,
        job_id="abababab-abab-7bab-abab-abababababab",
        attempt=number,
        ticket=name,
        agent_url=place.agent_url,
        resources=NEED,
    )


async def first_free_offer(place: BackendUnderTest) -> Offer:
    """Return an offer that is free, as soon as a place that has not answered yet has one."""
    end = time.monotonic() + LIMIT_S
    while True:
        offers = await place.backend.offers(NEED)
        free = next((offer for offer in offers if offer.free is None or offer.free > 0), None)
        if free is not None:
            return free
        if time.monotonic() > end:
            raise AssertionError(f"no offer is free: {[offer.wait_reason for offer in offers]}")
        await asyncio.sleep(0.1)


async def wait_for_state(
    place: BackendUnderTest, handle: Handle, *states: MachineState, within_s: float = LIMIT_S
) -> Observation:
    end = time.monotonic() + within_s
    observed = await place.backend.probe(handle)
    while observed.state not in states:
        if time.monotonic() > end:
            raise AssertionError(f"{handle.name} is {observed.state}, not {states}: {observed.detail}")
        await asyncio.sleep(0.05)
        observed = await place.backend.probe(handle)
    return observed


async def wait_until(holds: Callable[[], bool], within_s: float = LIMIT_S) -> None:
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise AssertionError("the condition did not become true within the time limit of the test")
        await asyncio.sleep(0.02)


class BackendContract:
    """Tests of `Backend`: offers, launch, probe and terminate.

    They also test that a call can be repeated with the same name without harm.
    """

    async def test_an_offer_names_its_backend_and_never_has_a_negative_price(
        self, place: BackendUnderTest
    ) -> None:
        offers = await place.backend.offers(NEED)
        assert offers
        assert all(o.backend == place.backend.name and o.price_microusd_per_hour >= 0 for o in offers)

    async def test_a_launched_attempt_runs_until_it_is_terminated(self, place: BackendUnderTest) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        await wait_until(lambda: place.count_agents() == 1)
        await place.backend.terminate(handle)
        assert (await wait_for_state(place, handle, MachineState.GONE, MachineState.ABSENT)).state not in BUSY

    async def test_launching_a_name_twice_starts_one(self, place: BackendUnderTest) -> None:
        offer = await first_free_offer(place)
        first = await place.backend.launch(new_launch(place), offer)
        await wait_until(lambda: place.count_agents() == 1)
        again = await place.backend.launch(new_launch(place), offer)
        assert again.name == first.name
        await wait_for_state(place, again, MachineState.RUNNING)
        assert place.count_agents() == 1
        await place.backend.terminate(again)
        await wait_for_state(place, first, MachineState.GONE, MachineState.ABSENT)

    async def test_terminating_twice_is_the_same_as_once(self, place: BackendUnderTest) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await place.backend.terminate(handle)
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE, MachineState.ABSENT)

    async def test_terminating_what_never_was_is_no_error(self, place: BackendUnderTest) -> None:
        nothing = Handle(name=f"anygpu-{'cd' * 16}-9")
        await place.backend.terminate(nothing)
        assert (await place.backend.probe(nothing)).state in (MachineState.GONE, MachineState.ABSENT)

    async def test_a_handle_that_holds_only_the_name_is_enough(self, place: BackendUnderTest) -> None:
        launch = new_launch(place)
        await place.backend.launch(launch, await first_free_offer(place))
        only_name = Handle(name=launch.name)
        await wait_for_state(place, only_name, MachineState.RUNNING)
        await place.backend.terminate(only_name)
        await wait_for_state(place, only_name, MachineState.GONE, MachineState.ABSENT)

    async def test_the_inventory_lists_what_runs_and_nothing_else(self, place: BackendUnderTest) -> None:
        if not isinstance(place.backend, SupportsInventory):
            pytest.fail(
                "the backend cannot list its machines, so the sweeper cannot find those that no attempt owns"
            )
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        assert handle.name in {h.name for h in await place.backend.inventory()}
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE, MachineState.ABSENT)
        assert handle.name not in {h.name for h in await place.backend.inventory()}
