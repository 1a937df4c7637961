"""What the router is told of the places a job could go: credit counts, and a fact needs no sure prediction."""

from typing import Any

import pytest
from tests.unit.control.running import job, moved, saved, started
from tests.unit.plan.offers.candidate_builders import as_candidates

from anygpu.control.schedule.compare import JobComparison, OfferComparer, no_analysis, no_past_runs, work_key
from anygpu.events.offers import Offer
from anygpu.events.types import JobSubmitted
from anygpu.plan.offers.candidates import BackendTerms
from anygpu.plan.offers.selection import make_plan
from anygpu.spec.load import from_mapping
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

CASH = Offer(backend="cash", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=400_000)
CREDIT = Offer(backend="credit", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=500_000)
OLD_DRIVER = Offer(backend="old", gpu_kind="T4", gpu_count=1, driver="470.57")


def compared(*offers: Offer, credit: dict[str, int], **spec: Any) -> JobComparison:
    async def story(loop: VirtualLoop) -> JobComparison:
        clock, journal = VirtualClock(loop, start_ms=1000), MemoryJournal(now_s=loop.time)
        asked = JobSubmitted(spec=from_mapping({"script": "train.py", **spec}))
        await journal.submit(Scope(organisation="lab", project="p"), "a", asked, at_ms=1)
        plans = Plans(MemoryBlobs(clock.wall_ms))
        comparing = OfferComparer(
            no_analysis, plans, clock, no_past_runs, lambda backend: BackendTerms(credit.get(backend, 0))
        )
        candidates = [comparing.candidate(offer) for offer in offers]
        return await comparing.compare(await journal.view(SYSTEM, "a"), candidates)

    found: JobComparison = run(story)
    return found


def chosen(found: JobComparison, *offers: Offer, **spec: Any) -> str:
    plan = make_plan(
        from_mapping({"script": "train.py", "placement": {"paid": True}, **spec}),
        as_candidates(offers),
        comparison=found.comparison,
    )
    return plan.choice.backend if plan.choice else plan.reason


def test_a_job_goes_where_there_is_credit_left() -> None:
    offers = CASH, CREDIT
    assert chosen(compared(*offers, credit={}), *offers) == "cash"
    assert chosen(compared(*offers, credit={"credit": 300_000_000}), *offers) == "credit"
    assert chosen(compared(*offers, credit={"credit": 10}), *offers) == "cash"


def test_a_driver_that_does_not_fit_keeps_the_job_away_however_little_is_known_of_its_time() -> None:
    wanted: dict[str, Any] = {"requirements": ["torch==2.12"]}
    found = compared(OLD_DRIVER, CASH, credit={}, **wanted)
    assert chosen(found, OLD_DRIVER, CASH, **wanted) == "cash"
    assert "has driver 470.57" in chosen(found, OLD_DRIVER, **wanted)


@pytest.mark.parametrize(
    "other",
    [
        {"requirements": ["torch==2.12"]},  # runs on other GPUs
        {"python": "/opt/torch/bin/python"},
        {"setup": ["make"]},  # starts later
        {"dataset": "s3://bucket/more"},  # other runs are its past
        {"checkpoint": {"every": "10m"}},  # may not be interrupted
        {"limits": {"max_cost": 5}},
        {"limits": {"deadline": "5h"}},
    ],
)
def test_jobs_for_which_places_are_worth_different_things_share_no_comparison(other: dict[str, Any]) -> None:
    assert work_key(job()) == work_key(job(name="twin", env={"SEED": "2"}))
    assert len({work_key(job()), work_key(job(**other))}) == 2


def test_of_two_jobs_with_one_deadline_the_one_that_has_trained_has_more_time() -> None:
    wanted: dict[str, Any] = {"limits": {"deadline": "2030-01-01T00:00:00Z"}}
    begun = job(*started(0), saved(1000), *moved(1010, 1), **wanted)
    assert work_key(job(**wanted)) == work_key(job(**wanted))
    assert work_key(begun) != work_key(job(**wanted))
