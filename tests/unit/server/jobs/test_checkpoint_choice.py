"""Which checkpoint the body of a resume request chooses."""

from typing import Any

import pytest

from anygpu.errors import InvalidSpec
from anygpu.server.jobs.checkpoint_choice import take_chosen_step
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples.jobs import LAB, START_MS, job_id, job_submitted


async def choose(body: dict[str, Any]) -> int | None:
    """Return the step that the body chooses, for job 1 of two."""
    journal = MemoryJournal()
    for number in (1, 2):
        event = job_submitted(name=f"job-{number}")
        await journal.submit(LAB, job_id(number), event, at_ms=START_MS + number)
    view = await journal.view(LAB, job_id(1))
    return await take_chosen_step(journal, LAB, view, body)


@pytest.mark.parametrize(
    ("body", "step"),
    [
        ({}, None),
        ({"resume_from": 400}, 400),
        ({"checkpoint": 400}, 400),
        ({"resume_from": "@400"}, 400),
        ({"resume_from": "job-1@400", "checkpoint": 400}, 400),
        ({"resume_from": "job-1"}, None),
    ],
)
async def test_a_step_is_chosen_by_number_or_with_the_name_of_the_job(
    body: dict[str, Any], step: int | None
) -> None:
    assert await choose(body) == step
    assert body == {}


async def test_a_section_of_the_spec_is_not_a_choice() -> None:
    body = {"checkpoint": {"every": "5m"}, "name": "again"}
    assert await choose(body) is None
    assert body == {"checkpoint": {"every": "5m"}, "name": "again"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"resume_from": "job-2@400"}, "another job"),
        ({"resume_from": 400, "checkpoint": 300}, "differs from the step"),
        ({"resume_from": "job-1@"}, "not a choice of a checkpoint"),
        ({"resume_from": "job-1@4e2"}, "not a choice of a checkpoint"),
        ({"checkpoint": -1}, "not a choice of a checkpoint"),
        ({"checkpoint": True}, "not a choice of a checkpoint"),
        ({"checkpoint": [400]}, "not a choice of a checkpoint"),
    ],
)
async def test_an_invalid_choice_says_what_to_give(body: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message) as refused:
        await choose(body)
    (problem,) = refused.value.problems
    assert problem.suggestion.startswith("give ")
