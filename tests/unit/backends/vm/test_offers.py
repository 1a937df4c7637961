"""Offers under the limits of a backend's own configuration."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.backends.vm.memory_provider import SMALL, MemoryProvider, a_launch, in_virtual_time, rented

from anygpu.backends.vm.offers import apply_limits
from anygpu.backends.vm.options import VmOptions, VmTiming
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


def of(offer: Offer, options: VmOptions, *, machines: int = 0, attended: bool = False) -> Offer:
    return apply_limits(
        offer, backend="cloud", options=options, timing=VmTiming(), machines=machines, attended=attended
    )


def test_an_offer_has_the_name_of_its_backend_and_a_lease() -> None:
    offer = of(replace(SMALL, self_expires="halt"), VmOptions())
    assert (offer.backend, offer.lease_s, offer.refused, offer.free) == ("cloud", 900, "", 10)


def test_a_machine_above_the_maximum_price_is_refused_with_both_prices() -> None:
    offer = of(replace(SMALL, self_expires="halt"), VmOptions(max_price_microusd_per_hour=250_000))
    assert "$1.00 an hour, more than the $0.25" in offer.refused


@pytest.mark.parametrize(
    ("options", "attended", "is_refused"),
    [(VmOptions(), False, True), (VmOptions(unattended=True), False, False), (VmOptions(), True, False)],
)
def test_a_machine_that_cannot_end_by_itself_needs_consent_or_a_server_that_is_always_on(
    options: VmOptions, attended: bool, is_refused: bool
) -> None:
    offer = of(replace(SMALL, self_expires="none"), options, attended=attended)
    assert bool(offer.refused) is is_refused
    assert not is_refused or "$24.00 a day; set the option unattended=true" in offer.refused


def test_a_full_backend_gives_the_reason_to_wait() -> None:
    offer = of(replace(SMALL, self_expires="halt", free=5), VmOptions(max_machines=3), machines=3)
    assert (offer.free, offer.wait_reason) == (0, "3 of 3 machines of this backend are in use (max_machines)")
    assert of(replace(SMALL, self_expires="halt", free=5), VmOptions(max_machines=3), machines=1).free == 2


def test_offers_are_fetched_once_a_minute_for_all_callers() -> None:
    async def story() -> None:
        place = rented(MemoryProvider())
        await asyncio.gather(*(place.backend.offers(Resources()) for _ in range(50)))
        await asyncio.sleep(50)
        await place.backend.offers(Resources())
        assert place.provider.asked_for_offers == 1
        await asyncio.sleep(11)
        await place.backend.offers(Resources())
        assert place.provider.asked_for_offers == 2

    in_virtual_time(story)


def test_machines_being_created_count_towards_the_limit() -> None:
    async def story() -> None:
        place = rented(MemoryProvider(), VmOptions(max_machines=1))
        offer = (await place.backend.offers(Resources()))[0]
        making = asyncio.create_task(place.backend.launch(a_launch(), offer))
        await asyncio.sleep(0.01)
        assert (await place.backend.offers(Resources()))[0].free == 0
        await making

    in_virtual_time(story)
