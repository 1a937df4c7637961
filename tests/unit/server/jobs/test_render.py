"""Jobs are rendered without their models for speed; both must have the same keys and types."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from anygpu.api.jobs import JobDetails, JobSummary
from anygpu.events.types import Event
from anygpu.events.view import JobView
from anygpu.server.encoding import dumps
from anygpu.server.jobs.render import render_job, render_summary
from anygpu.store.reports import ReportState, SeriesSummary
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples import jobs
from anygpu.testing.samples.jobs import LAB

ROW = ReportState(progress={"fraction": 0.5, "step": 3, "message": "half"}, telemetry={"cpu": 0.9})
SERIES = (SeriesSummary(name="loss", count=2, min=0.1, max=0.9, last=float("nan"), last_step=2),)


async def views() -> list[JobView]:
    """A job after each of its events."""
    journal = MemoryJournal()
    job_id = jobs.job_id(1)
    await journal.submit(LAB, job_id, jobs.job_submitted(), at_ms=jobs.START_MS)
    found = [await journal.view(LAB, job_id)]
    for event in jobs.interrupted_job():

        def decide(_: JobView, event: Event = event) -> list[Event]:
            return [event]

        found.append((await journal.transact(LAB, job_id, decide, at_ms=jobs.START_MS)).view)
    return found


def through_model(model: type[BaseModel], rendered: dict[str, Any]) -> Any:
    return model.model_validate(rendered, strict=True).model_dump(mode="json")


@pytest.mark.parametrize("model", [JobSummary, JobDetails])
async def test_a_rendered_job_has_the_keys_and_values_of_its_model(model: type[BaseModel]) -> None:
    for view in await views():
        if model is JobSummary:
            rendered = render_summary(view, ROW, queue_position=1, now_ms=jobs.START_MS)
        else:
            rendered = render_job(view, ROW, SERIES, queue_position=None, now_ms=jobs.START_MS)
        plain = json.loads(dumps(rendered))
        assert through_model(model, plain) == plain


async def test_a_completed_job_shows_full_progress() -> None:
    *_, completed = await views()
    assert completed.status == "completed"
    rendered = render_summary(completed, ROW, queue_position=None, now_ms=jobs.START_MS)
    assert rendered["progress"] == {
        "fraction": 1.0,
        "step": 3,
        "steps": None,
        "epoch": None,
        "epochs": None,
        "message": "half",
    }
