"""`anygpu accuracy`: how far predictions were from what happened."""

from collections.abc import Mapping
from typing import Any

import click

from anygpu.cli import table, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json

HEADING = ("PREDICTED", "FROM", "OF", "JOBS", "MEDIAN ERROR", "P90 ERROR", "INTERVAL HELD", "WIDTH")
EMPTY = (
    "no completed job was predicted yet",
    "run one that says its steps (`anygpu.progress(step=..., steps=...)`, or a trainer), then ask again",
)


@click.command(name="accuracy")
@json_option
@context_option
def command(as_json: bool, context_name: str) -> None:
    """How far predicted times and costs were from what they really were."""
    found = connect(context_name).accuracy()
    if as_json:
        emit_json(found)
    else:
        emit(lines(found))


def lines(found: Mapping[str, Any]) -> list[str]:
    if not found["jobs"]:
        return list(EMPTY)
    whens = (("before the run", found["before"]), ("after its first steps", found["first_steps"]))
    rows = [row for when, told in whens for row in _rows(when, told)]
    target = (
        f"nine intervals in ten are to hold the truth; of the newest {words.plural(found['jobs'], 'job')}"
    )
    return [*table.table(HEADING, rows), "", target]


def _rows(when: str, told: Mapping[str, Any]) -> list[tuple[str, ...]]:
    bases = told.get("by_basis") or {}
    groups = [("all", told), *bases.items()] if len(bases) > 1 else [*bases.items()]
    return [
        _row(when, basis, name, group[name])
        for basis, group in groups
        for name in ("time", "cost")
        if group.get(name)
    ]


def _row(when: str, basis: str, name: str, errors: Mapping[str, Any]) -> tuple[str, ...]:
    jobs, held = errors["jobs"], errors["held"]
    return (
        when,
        basis,
        name,
        str(jobs),
        words.percent(errors["median_error"]),
        words.percent(errors["p90_error"]),
        f"{held} of {jobs} ({words.percent(held / jobs)})",
        f"x{errors['median_width']:.2f}",
    )
