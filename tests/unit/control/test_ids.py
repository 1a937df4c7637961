"""Ids of jobs sort by time, and names of attempts lead back to their job."""

from uuid import UUID

import pytest

from anygpu.control.ids import attempt_name, new_job_id, read_attempt_name, short_id
from anygpu.testing.simulation.virtual_time import SeededRandomness, VirtualClock, VirtualLoop

JOB = "0198f3c2-0000-7abc-8def-0123456789ab"


def new_ids(count: int) -> list[str]:
    clock, randomness = VirtualClock(VirtualLoop()), SeededRandomness("ids")
    ids = []
    for _ in range(count):
        ids.append(new_job_id(clock, randomness))
        clock.jumped_ms += 1
    return ids


def test_an_id_is_a_uuid_of_version_7() -> None:
    for text in new_ids(50):
        parsed = UUID(text)
        assert (str(parsed), parsed.version, parsed.variant) == (text, 7, "specified in RFC 4122")


def test_ids_sort_by_the_time_of_submission() -> None:
    ids = new_ids(50)
    assert sorted(ids) == ids


def test_the_short_id_is_the_end_which_differs_between_jobs_of_one_minute() -> None:
    assert short_id(JOB) == "456789ab"
    assert len({short_id(each) for each in new_ids(50)}) == 50


def test_the_name_of_an_attempt_leads_back_to_its_job() -> None:
    name = attempt_name(JOB, 12)
    assert name == "anygpu-0198f3c200007abc8def0123456789ab-12"
    assert read_attempt_name(name) == (JOB, 12)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "anygpu",
        "gpu-box",
        "anygpu-0198f3c2-1",
        "anygpu-0198F3C200007ABC8DEF0123456789AB-1",
        "anygpu-0198f3c200007abc8def0123456789ab",
        "anygpu-0198f3c200007abc8def0123456789ab-1x",
        "anygpu-0198f3c200007abc8def0123456789ab-1234567890",
        "x-anygpu-0198f3c200007abc8def0123456789ab-1",
    ],
)
def test_other_names_are_not_read_as_attempts(name: str) -> None:
    assert read_attempt_name(name) is None
