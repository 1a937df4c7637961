"""A job that is edited keeps to the rules of a job that is submitted."""

from typing import Any

import pytest

from anygpu.api.jobs import JobEdit
from anygpu.control.jobs import EditedFields
from anygpu.errors import InvalidSpec
from anygpu.events.fold import Recorded, fold
from anygpu.events.view import JobView
from anygpu.server.jobs.edit import edited_fields
from anygpu.testing.samples.jobs import START_MS, job_id, job_submitted


def job(*tags: str) -> JobView:
    event = job_submitted(name="digits", tags=list(tags))
    view = fold(
        [
            Recorded(
                organisation="lab",
                project="vision",
                position=1,
                job_id=job_id(1),
                at_ms=START_MS,
                event=event,
            )
        ]
    )
    assert view is not None
    return view


def edit(*tags: str, **changes: Any) -> EditedFields:
    return edited_fields(job(*tags), JobEdit(**changes))


def test_what_is_left_out_stays_as_it_is() -> None:
    assert edit("night") == EditedFields(name=None, tags=None, notes=None)


def test_tags_are_replaced_added_and_removed_without_repetition() -> None:
    assert edit("night", "a", tags=["day"]).tags == ("day",)
    assert edit("night", add_tags=["best", "night"]).tags == ("night", "best")
    assert edit("night", "a", remove_tags=["night"]).tags == ("a",)
    assert edit("night", tags=["x"], add_tags=["y"], remove_tags=["x"]).tags == ("y",)


def test_an_empty_name_removes_the_name() -> None:
    assert edit(name="").name == ""
    assert edit(name="faster").name == "faster"


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"name": "no spaces"}, "name"), ({"add_tags": ["line\nbreak"]}, "tags.0"), ({"tags": [" "]}, "tags.0")],
)
def test_what_no_job_could_be_submitted_with_is_refused(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        edit(**changes)
    assert [problem.place for problem in refused.value.problems] == [place]
