"""Find a job by id, unique prefix, name, or `last`."""

import pytest

from anygpu.control.ids import new_job_id, short_id
from anygpu.errors import Conflict, NotFound
from anygpu.server.jobs.resolve import resolve_job, uuid_prefix
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples import jobs as histories
from anygpu.testing.samples.jobs import LAB, STRANGER
from anygpu.testing.simulation.virtual_time import SeededRandomness, VirtualClock, VirtualLoop


@pytest.fixture
async def journal() -> MemoryJournal:
    journal = MemoryJournal()
    for number, name in ((1, "alpha"), (2, "beta"), (3, "alpha")):
        event = histories.job_submitted(name=name)
        await journal.submit(LAB, histories.job_id(number), event, at_ms=histories.START_MS + number)
    return journal


async def test_a_job_is_found_by_id_prefix_and_name(journal: MemoryJournal) -> None:
    second = histories.job_id(2)
    for reference in (second, second.replace("-", ""), second.upper(), second[:20], "beta"):
        assert (await resolve_job(journal, LAB, reference)).id == second


async def test_a_name_finds_its_newest_job_and_last_the_newest_of_all(journal: MemoryJournal) -> None:
    assert (await resolve_job(journal, LAB, "alpha")).id == histories.job_id(3)
    assert (await resolve_job(journal, LAB, "last")).id == histories.job_id(3)


async def test_a_prefix_of_several_ids_is_refused(journal: MemoryJournal) -> None:
    with pytest.raises(Conflict, match="Several jobs"):
        await resolve_job(journal, LAB, histories.job_id(1)[:8])


async def test_a_prefix_that_is_too_short_is_named_as_such(journal: MemoryJournal) -> None:
    with pytest.raises(NotFound, match="at least 8 digits"):
        await resolve_job(journal, LAB, histories.job_id(1)[:4])


@pytest.mark.parametrize(
    "reference", ["nothing", "deadbeef", "last", "00000000-0000-0000-0000-000000000000", "ü/.."]
)
async def test_another_organisation_finds_nothing(journal: MemoryJournal, reference: str) -> None:
    for each in (reference, histories.job_id(1), histories.job_id(1)[:20], "beta"):
        with pytest.raises(NotFound):
            await resolve_job(journal, STRANGER, each)


def test_a_prefix_gets_the_dashes_of_an_id() -> None:
    assert uuid_prefix("0123456789abcdef") == "01234567-89ab-cdef"
    assert uuid_prefix("012345678") == "01234567-8"


async def test_jobs_of_the_same_minute_have_different_short_ids_that_find_them() -> None:
    journal, clock, randomness = MemoryJournal(), VirtualClock(VirtualLoop()), SeededRandomness("7")
    made = [new_job_id(clock, randomness) for _ in range(200)]
    for number, job_id in enumerate(made):
        await journal.submit(LAB, job_id, histories.job_submitted(), at_ms=histories.START_MS + number)
    assert len({job_id[:8] for job_id in made}) == 1
    assert len({short_id(job_id) for job_id in made}) == len(made)
    for job_id in made:
        assert (await resolve_job(journal, LAB, short_id(job_id))).id == job_id


async def test_digits_that_begin_one_id_and_end_another_are_refused(journal: MemoryJournal) -> None:
    begins = histories.job_id(9)[:8]
    ends = f"00000000-0000-7000-8000-0000{begins}"
    for job_id in (histories.job_id(9), ends):
        await journal.submit(STRANGER, job_id, histories.job_submitted(), at_ms=histories.START_MS)
    with pytest.raises(Conflict, match="begins or ends"):
        await resolve_job(journal, STRANGER, begins)
