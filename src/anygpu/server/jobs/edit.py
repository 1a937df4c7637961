"""Check a request that edits a job, by the rules of the job spec."""

from typing import Any

from pydantic import TypeAdapter, ValidationError

from anygpu.api.jobs import JobEdit
from anygpu.control.jobs import EditedFields
from anygpu.errors import InvalidSpec, Problem
from anygpu.events.view import JobView
from anygpu.spec.jobspec import Name
from anygpu.spec.sections import Tags

SOURCE = "body"


def edited_fields(view: JobView, edit: JobEdit) -> EditedFields:
    """Return the new values of a job. Raise InvalidSpec if a job could not have been submitted with them."""
    name = edit.name and _check("name", Name, edit.name)
    return EditedFields(name=name, tags=_new_tags(view, edit), notes=edit.notes)


def _new_tags(view: JobView, edit: JobEdit) -> tuple[str, ...] | None:
    if edit.tags is None and not edit.add_tags and not edit.remove_tags:
        return None
    wanted = [*(view.tags if edit.tags is None else edit.tags), *edit.add_tags]
    kept = [tag for tag in dict.fromkeys(wanted) if tag not in edit.remove_tags]
    tags: tuple[str, ...] = _check("tags", Tags, kept)
    return tags


def _check(field: str, kind: Any, value: Any) -> Any:
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        problems = [_problem(field, each) for each in error.errors(include_url=False)]
    raise InvalidSpec(problems)


def _problem(field: str, error: Any) -> Problem:
    place = ".".join((field, *map(str, error["loc"])))
    message = error["msg"].removeprefix("Value error, ").replace("Input should", "should")
    shown = error["input"] if isinstance(error["input"], str) else None
    return Problem(place, shown, message[:1].lower() + message[1:], source=SOURCE)
