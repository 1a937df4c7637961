"""`anygpu explain` and `anygpu accuracy`: compare plans and predictions with what happened."""

from collections.abc import Mapping
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal import formatting, job_lines, output, plan_lines
from anygpu.cli.terminal.output import emit, emit_json

NO_PLAN = (
    "no comparison was kept: it ended before one was made, or it is older than what is kept. "
    "`anygpu plan` compares places for a job that was not submitted yet."
)
BASIS = {
    "said": "the duration the job was submitted with",
    "history": "earlier runs of the same work",
    "code": "what was read of the code",
    "first steps": "its first steps",
}


@click.command(name="explain")
@click.argument("job", default="last")
@click.option("--rejected", is_flag=True, help="Show what was out of the question, and why.")
@json_option
@context_option
def explain_command(job: str, rejected: bool, as_json: bool, context_name: str) -> None:
    """Why a JOB ran where it did, the runners-up, and what was predicted against what it took.

    JOB is an id or its beginning, a name, or `last`.
    """
    client = connect(context_name)
    found = client.job(job)
    told = client.kept_plan(found["id"])
    if as_json:
        emit_json(told)
        return
    emit([_placement_text(found, told["plan"]), ""])
    emit(_prediction_lines(told))
    emit([job_lines.better_offer_text(found), ""] if found.get("better") else [])
    emit(_other_offers(told["plan"]))
    emit(plan_lines.rejected_lines(told["plan"]) if rejected and told["plan"] else [])


def _placement_text(job: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    name = job["name"] or formatting.short_id(job["id"])
    if not job["attempts"]:
        return f"{name} has no place yet: {job['reason'] or job['phase']}"
    if plan is None:
        return f"{name} is on {job['backend']}; {NO_PLAN}"
    choice = plan["choice"]
    if choice is None:
        return f"{name} is on {job['backend']}"
    why = plan_lines.reasons_text(
        {**choice, "wait": ""}
    )  # it has begun; by now it may itself fill what was free
    place = " ".join(
        part for part in (plan_lines.location_text(choice), plan_lines.machine_text(choice)) if part
    )
    return f"{name} went to {place} ({plan['strategy']})" + (f": {why}" if why else "")


def _prediction_lines(told: Mapping[str, Any]) -> list[str]:
    first, newest, actual = told["predicted"], told["newest"], told["actual"]
    rows = [_prediction_row(each, actual) for each in (first, newest if newest != first else None) if each]
    heading = ("PREDICTED FROM", "TIME", "COST", "SURE", *(("TIME OFF BY", "COST OFF BY") if actual else ()))
    lines = output.table(heading, rows) if rows else ["nothing was known to predict its time from"]
    return [*lines, *(_actual_lines(actual) if actual else []), ""]


def _actual_lines(actual: Mapping[str, Any]) -> list[str]:
    return [
        f"it took {formatting.duration(actual['seconds'])} and cost {formatting.money(actual['cost_microusd'])}"
    ]


def _prediction_row(said: Mapping[str, Any], actual: Mapping[str, Any] | None) -> tuple[str, ...]:
    time = formatting.duration(said["wall_s"])
    span = f"{formatting.duration(said['wall_low_s'])} to {formatting.duration(said['wall_high_s'])}"
    cost = formatting.money(said["cost_microusd"])
    costs = f"{formatting.money(said['cost_low_microusd'])} to {formatting.money(said['cost_high_microusd'])}"
    told = (
        BASIS.get(said["basis"], said["basis"]),
        f"{time} ({span})",
        f"{cost} ({costs})",
        said["confidence"],
    )
    if actual is None:
        return told
    return (
        *told,
        _percent_off(said["wall_s"], actual["seconds"]),
        _percent_off(said["cost_microusd"], actual["cost_microusd"]),
    )


def _percent_off(predicted: float, actual: float) -> str:
    return f"{(predicted / actual - 1) * 100:+.0f} %" if actual else "-"


def _other_offers(plan: Mapping[str, Any] | None) -> list[str]:
    if plan is None:
        return []
    others = [each for each in plan["short"] if not _is_same_offer(each, plan["choice"])]
    return ["what else there was:", *plan_lines.offer_table(others)] if others else []


def _is_same_offer(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    names = ("backend", "name", "region", "zone", "interruptible")
    return other is not None and all(one[name] == other[name] for name in names)


ACCURACY_HEADING = ("PREDICTED", "FROM", "OF", "JOBS", "MEDIAN ERROR", "P90 ERROR", "INTERVAL HELD", "WIDTH")
NO_PREDICTIONS = (
    "no completed job was predicted yet",
    "run one that says its steps (`anygpu.progress(step=..., steps=...)`, or a trainer), then ask again",
)


@click.command(name="accuracy")
@json_option
@context_option
def accuracy_command(as_json: bool, context_name: str) -> None:
    """How far predicted times and costs were from what they really were."""
    found = connect(context_name).accuracy()
    if as_json:
        emit_json(found)
    else:
        emit(accuracy_lines(found))


def accuracy_lines(found: Mapping[str, Any]) -> list[str]:
    if not found["jobs"]:
        return list(NO_PREDICTIONS)
    whens = (("before the run", found["before"]), ("after its first steps", found["first_steps"]))
    rows = [row for when, told in whens for row in _accuracy_rows(when, told)]
    target = f"nine intervals in ten are to hold the truth; of the newest {formatting.plural(found['jobs'], 'job')}"
    return [*output.table(ACCURACY_HEADING, rows), "", target]


def _accuracy_rows(when: str, told: Mapping[str, Any]) -> list[tuple[str, ...]]:
    bases = told.get("by_basis") or {}
    groups = [("all", told), *bases.items()] if len(bases) > 1 else [*bases.items()]
    return [
        _accuracy_row(when, basis, name, group[name])
        for basis, group in groups
        for name in ("time", "cost")
        if group.get(name)
    ]


def _accuracy_row(when: str, basis: str, name: str, errors: Mapping[str, Any]) -> tuple[str, ...]:
    jobs, held = errors["jobs"], errors["held"]
    return (
        when,
        basis,
        name,
        str(jobs),
        formatting.percent(errors["median_error"]),
        formatting.percent(errors["p90_error"]),
        f"{held} of {jobs} ({formatting.percent(held / jobs)})",
        f"x{errors['median_width']:.2f}",
    )
