"""Tests that the job search of every journal must pass."""

from collections.abc import Mapping

import pytest

from anygpu.errors import NotFound
from anygpu.events.types import JobEdited, JobSubmitted
from anygpu.store.journal import JobQuery, Journal
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.samples.jobs import (
    LAB,
    START_MS,
    STRANGER,
    attempt_training,
    interrupted_job,
    job_id,
    job_spec,
)


async def search(journal: Journal, **filters: object) -> list[int]:
    """Search for jobs, and return the numbers of the jobs on the first page."""
    page = await journal.find(LAB, JobQuery(**filters))  # type: ignore[arg-type]
    return [(job.submitted_at_ms - START_MS) // 1000 for job in page.jobs]


class JobSearchContract:
    """Tests of `Journal.find`. To test a journal, subclass this class and provide the fixture `journal`."""

    async def test_jobs_come_last_submitted_first(self, journal: Journal) -> None:
        for number in (1, 2, 3):
            await submit(journal, number)
        await submit(journal, 4, STRANGER)
        assert await search(journal) == [3, 2, 1]
        assert await search(journal, limit=2) == [3, 2]

    async def test_pages_by_cursor_hold_every_job_once_while_jobs_arrive(self, journal: Journal) -> None:
        for number in range(25):
            await submit(journal, number, tags=["even"] if number % 2 == 0 else [])
        ids: list[str] = []
        cursor = None
        for arrival in range(100, 200):
            page = await journal.find(LAB, JobQuery(tag="even", limit=3, cursor=cursor))
            ids += [job.id for job in page.jobs]
            cursor = page.next_cursor
            await submit(journal, arrival, tags=["even"])
            if cursor is None:
                break
        assert ids == [job_id(number) for number in range(24, -1, -2)]

    async def test_the_last_page_has_no_next(self, journal: Journal) -> None:
        for number in range(4):
            await submit(journal, number)
        page = await journal.find(LAB, JobQuery(limit=2))
        assert page.next_cursor is not None
        page = await journal.find(LAB, JobQuery(limit=2, cursor=page.next_cursor))
        assert (len(page.jobs), page.next_cursor) == (2, None)

    @pytest.mark.parametrize("cursor", ["", "x", "!!", "MTp4", "MTo5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"])
    async def test_a_made_up_cursor_is_not_found(self, journal: Journal, cursor: str) -> None:
        await submit(journal, 1)
        with pytest.raises(NotFound):
            await journal.find(LAB, JobQuery(cursor=cursor))

    async def test_status_and_phase_follow_the_events(self, journal: Journal) -> None:
        for number in (1, 2, 3):
            await submit(journal, number)
        await append(journal, job_id(2), *attempt_training())
        await append(journal, job_id(3), *interrupted_job())
        assert await search(journal, status=("queued",)) == [1]
        assert await search(journal, status=("running",)) == [2]
        assert await search(journal, status=("completed", "queued")) == [3, 1]
        assert await search(journal, phase=("training",)) == [2]
        assert await search(journal, phase=("planning", "training")) == [2, 1]
        assert await search(journal, status=("running",), phase=("ended",)) == []
        assert await search(journal, status=("nonsense",)) == []

    async def test_backend_is_that_of_the_newest_attempt(self, journal: Journal) -> None:
        await submit(journal, 1)
        await submit(journal, 2)
        await append(journal, job_id(1), *interrupted_job())
        await append(journal, job_id(2), *attempt_training())
        assert await search(journal, backend="cloud") == [1]
        assert await search(journal, backend="local") == [2]

    async def test_names_tags_and_people_are_exact(self, journal: Journal) -> None:
        await submit(journal, 1, name="night", tags=["a", "b"])
        await submit(journal, 2, name="night-2", tags=["b"])
        event = JobSubmitted(spec=job_spec(tags=["b"]), person="eve")
        await journal.submit(LAB, job_id(3), event, at_ms=START_MS + 3000)
        assert await search(journal, name="night") == [1]
        assert await search(journal, tag="b") == [3, 2, 1]
        assert await search(journal, tag="a", name="night") == [1]
        assert await search(journal, tag="A") == []
        assert await search(journal, person="eve", tag="b") == [3]
        assert await search(journal, name="nigh") == []

    async def test_words_are_found_by_their_beginning(self, journal: Journal) -> None:
        await submit(journal, 1, name="resnet50-night", tags=["Sweep"])
        await submit(journal, 2, script=None, command=["python", "-m", "finetune", "--resnet"])
        await submit(journal, 3, script=None, trainer="yolo", config={"model": "yolo11n"})
        assert await search(journal, text="resn") == [2, 1]
        assert await search(journal, text="RESNET50 sw") == [1]
        assert await search(journal, text="train.py") == [1]
        assert await search(journal, text="yolo11") == [3]
        assert await search(journal, text="esnet") == []
        assert await search(journal, text="resnet yolo") == []
        assert await search(journal, text=" -- ") == [3, 2, 1]

    async def test_long_and_strange_words_do_no_harm(self, journal: Journal) -> None:
        await submit(journal, 1, script=None, command="python " + "x" * 5000 + " ñandú %_' 日本語")
        assert await search(journal, text="x" * 4000) == [1]
        assert await search(journal, text="ÑAND") == [1]
        assert await search(journal, text="日本") == [1]
        assert await search(journal, text="%") == [1]
        assert await search(journal, name="%") == []

    async def test_ids_are_found_by_their_beginning_with_or_without_dashes(self, journal: Journal) -> None:
        for number in (1, 2):
            await submit(journal, number)
        whole = job_id(2)
        assert await search(journal, id_prefix=whole) == [2]
        assert await search(journal, id_prefix=whole.replace("-", "").upper()) == [2]
        assert await search(journal, id_prefix=whole[:5]) == [2, 1]
        assert await search(journal, id_prefix=whole[:13]) == [2]
        assert await search(journal, id_prefix="%") == []
        assert await search(journal, id_prefix=whole + "0") == []

    async def test_ids_are_found_by_their_last_digits(self, journal: Journal) -> None:
        for number in (1, 2, 17):
            await submit(journal, number)
        assert await search(journal, id_suffix=job_id(17)[-8:]) == [17]
        assert await search(journal, id_suffix=job_id(17)[-12:].upper()) == [17]
        assert await search(journal, id_suffix="1") == [17, 1]
        assert await search(journal, id_suffix=job_id(2)[-8:], id_prefix=job_id(2)[:13]) == [2]
        for nothing in ("%", "_", "", "1-1", job_id(2)):
            assert await search(journal, id_suffix=nothing) == []

    async def test_times_of_submission_are_from_inclusive_to_exclusive(self, journal: Journal) -> None:
        for number in range(5):
            await submit(journal, number, tags=["t"])
        after, before = START_MS + 1000, START_MS + 3000
        assert await search(journal, submitted_after_ms=after) == [4, 3, 2, 1]
        assert await search(journal, submitted_before_ms=before) == [2, 1, 0]
        assert await search(journal, submitted_after_ms=after, submitted_before_ms=before, tag="t") == [2, 1]
        assert await search(journal, submitted_after_ms=before, submitted_before_ms=after) == []

    async def test_active_stands_for_queued_and_running(self, journal: Journal) -> None:
        for number in (1, 2, 3):
            await submit(journal, number)
        await append(journal, job_id(2), *attempt_training())
        await append(journal, job_id(3), *interrupted_job())
        assert await search(journal, status=("active",)) == [2, 1]
        assert await search(journal, status=("active", "completed")) == [3, 2, 1]

    async def test_an_edited_job_is_found_by_its_new_values_only(self, journal: Journal) -> None:
        await submit(journal, 1, name="old", tags=["day"])
        await append(journal, job_id(1), JobEdited(name="new", tags=("night",), notes="Larger batch."))
        assert await search(journal, name="old") == await search(journal, tag="day") == []
        assert await search(journal, text="old") == []
        assert await search(journal, name="new") == await search(journal, tag="night") == [1]
        assert await search(journal, text="larger batch") == [1]
        await append(journal, job_id(1), *attempt_training())
        assert await search(journal, name="new", status=("running",)) == [1]

    async def test_jobs_are_counted_by_status(self, journal: Journal) -> None:
        for number in (1, 2, 3, 4):
            await submit(journal, number, tags=["even"] if number % 2 == 0 else [])
        await submit(journal, 5, STRANGER)
        await append(journal, job_id(2), *attempt_training())
        await append(journal, job_id(3), *interrupted_job())
        counts = await journal.count(LAB, JobQuery(limit=1))
        assert _nonzero(counts.by_status) == {"queued": 2, "running": 1, "completed": 1}
        assert counts.is_exact
        even = await journal.count(LAB, JobQuery(tag="even"))
        assert _nonzero(even.by_status) == {"queued": 1, "running": 1}
        nothing = await journal.count(LAB, JobQuery(tag="odd"))
        assert _nonzero(nothing.by_status) == {}

    async def test_of_very_many_jobs_the_active_are_counted_exactly(
        self, journal: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("anygpu.store.sql.job_query", "anygpu.testing.memory.journal"):
            monkeypatch.setattr(f"{module}.COUNT_LIMIT", 3)
        for number in range(1, 7):
            await submit(journal, number, tags=["many"])
        for number in (2, 3, 4, 5, 6):
            await append(journal, job_id(number), *interrupted_job())
        counts = await journal.count(LAB, JobQuery(tag="many"))
        assert _nonzero(counts.by_status) == {"completed": 3, "queued": 1}
        assert not counts.is_exact

    async def test_a_deleted_job_is_not_counted(self, journal: Journal) -> None:
        await submit(journal, 1)
        await append(journal, job_id(1), *interrupted_job())
        await journal.delete(LAB, job_id(1), at_ms=START_MS)
        assert _nonzero((await journal.count(LAB, JobQuery())).by_status) == {}

    async def test_a_project_without_jobs_has_counts_of_zero(self, journal: Journal) -> None:
        assert _nonzero((await journal.count(LAB, JobQuery())).by_status) == {}


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {status: count for status, count in counts.items() if count}
