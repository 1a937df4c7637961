"""The checkpoint that the body of a resume request chooses: `{"resume_from": 400}` or `{"checkpoint": 400}`."""

from typing import Any, NamedTuple

from anygpu.bounds import is_count
from anygpu.errors import InvalidSpec, Problem
from anygpu.events.view import JobView
from anygpu.server.jobs.resolve import resolve_job
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope

MAX_DIGITS = 15


class CheckpointChoice(NamedTuple):
    """The checkpoint to resume from: a job (None: the job in the path) and a step (None: the newest checkpoint)."""

    job: str | None
    step: int | None


async def take_chosen_step(
    journal: Journal, scope: Scope, view: JobView, overrides: dict[str, Any]
) -> int | None:
    """Remove the choice of a checkpoint from the body, and return its step; None for the newest checkpoint.

    If `checkpoint` in the body is a mapping, it is not a choice but a section of the spec.
    """
    names = [name for name in ("resume_from", "checkpoint") if not isinstance(overrides.get(name), dict)]
    values = {name: overrides.pop(name) for name in names if overrides.get(name) is not None}
    steps = set()
    for name, value in values.items():
        choice = _parse_choice(name, value)
        if choice.job is not None and (await resolve_job(journal, scope, choice.job)).id != view.id:
            raise _invalid(
                name,
                value,
                "is a checkpoint of another job than the one to resume",
                "give only the step, without a job",
            )
        steps.add(choice.step)
    if len(steps) > 1:
        raise _invalid(
            "checkpoint",
            values["checkpoint"],
            "differs from the step in `resume_from`",
            "give only one of them",
        )
    return steps.pop() if steps else None


def _parse_choice(name: str, value: Any) -> CheckpointChoice:
    if is_count(value):
        return CheckpointChoice(None, value)
    job, at, step = value.rpartition("@") if isinstance(value, str) else ("", "", "")
    if _is_step(step):
        return CheckpointChoice(job or None, int(step))
    if isinstance(value, str) and value and not at:
        return CheckpointChoice(value, None)
    raise _invalid(
        name, value, "is not a choice of a checkpoint", "give a step as a whole number, or job@step"
    )


def _is_step(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _invalid(name: str, value: Any, message: str, suggestion: str) -> InvalidSpec:
    shown = value[:200] if isinstance(value, str) else value if isinstance(value, int | float) else None
    return InvalidSpec([Problem(name, shown, message, suggestion, "body")])
