"""A short job waits for a busy own machine instead of renting one that takes longer to start."""

import asyncio
from typing import Any

import pytest
from tests.unit.control.schedule.test_scheduler import Office, placed

from anygpu.control.schedule.own_wait import SlotForecast
from anygpu.events.offers import Offer
from anygpu.events.types import AttemptLaunching
from anygpu.testing.simulation.virtual_time import VirtualLoop

BOX = Offer(backend="box", name="box", cpus=1, free=0, wait_reason="all slots of box are taken", own=True)
CLOUD = Offer(backend="cloud", cpus=4, price_microusd_per_hour=600_000, expected_wait_s=120)
WAITS = "box is busy, but is expected to finish the job before a rented machine"
RUNS = AttemptLaunching(attempt=1, name="a-1", offer=BOX, ticket_sha256="")


def schedule(
    duration: str,
    *,
    busy: str = "",
    waited_s: float = 0,
    strategy: str = "cheapest",
    others: int = 0,
) -> dict[str, str]:
    """Where jobs of this duration go while a job that was predicted to take `busy` uses the own machine."""

    async def story(loop: VirtualLoop) -> dict[str, str]:
        office = Office(loop, BOX, CLOUD, allow_paid=True)
        await office.submit("busy", RUNS, placement=_placement(busy))
        for number in range(1 + others):
            await office.submit(f"job-{number}", placement={**_placement(duration), "strategy": strategy})
        if waited_s:
            await office.place()
            await asyncio.sleep(waited_s)
        return await office.place()

    found = placed(story)
    found.pop("busy")
    return found


def _placement(duration: str) -> dict[str, Any]:
    return {"expected_duration": duration} if duration else {}


def test_a_short_job_waits_for_the_busy_own_machine() -> None:
    assert schedule("2s") == {"job-0": WAITS}


def test_it_waits_no_longer_than_a_rented_machine_takes_to_start() -> None:
    assert schedule("2s", waited_s=170) == {"job-0": WAITS}
    assert schedule("2s", waited_s=190) == {"job-0": "cloud"}


@pytest.mark.parametrize("duration", ["1h", "4m", ""])
def test_a_job_that_runs_longer_than_a_machine_takes_to_start_rents_at_once(duration: str) -> None:
    assert schedule(duration) == {"job-0": "cloud"}


def test_a_job_that_should_be_done_as_soon_as_possible_rents_at_once() -> None:
    assert schedule("2s", strategy="fastest") == {"job-0": "cloud"}


def test_with_a_prediction_of_the_running_job_it_waits_only_if_that_is_faster() -> None:
    assert schedule("2s", busy="1m") == {"job-0": WAITS}
    assert schedule("2s", busy="10h") == {"job-0": "cloud"}


def test_jobs_that_are_ahead_in_the_queue_count() -> None:
    found = schedule("50s", busy="30s", others=4)
    assert list(found.values()) == [WAITS, WAITS, WAITS, "cloud", "cloud"]


def test_a_forecast_lists_when_slots_become_free() -> None:
    forecast = SlotForecast([("box", 1, 10.0), ("box", 2, 30.0)])
    assert [forecast.wait_s("box", slots) for slots in (1, 2, 3, 4)] == [10.0, 30.0, 30.0, float("inf")]
    forecast.add("box", 1, 50.0)
    assert forecast.wait_s("box", 3) == 60.0
    assert forecast.wait_s("elsewhere", 1) == float("inf")
