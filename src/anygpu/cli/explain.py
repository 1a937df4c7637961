"""`anygpu explain`: why a job ran where it did, what else there was, and how right the prediction was."""

from collections.abc import Mapping
from typing import Any

import click

from anygpu.cli import jobs, plan_view, table, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json

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
def command(job: str, rejected: bool, as_json: bool, context_name: str) -> None:
    """Why a JOB ran where it did, the runners-up, and what was predicted against what it took.

    JOB is an id or its beginning, a name, or `last`.
    """
    client = connect(context_name)
    found = client.job(job)
    told = client.kept_plan(found["id"])
    if as_json:
        emit_json(told)
        return
    emit([_where(found, told["plan"]), ""])
    emit(_predictions(told))
    emit([jobs.better(found), ""] if found.get("better") else [])
    emit(_runners_up(told["plan"]))
    emit(plan_view.rejected(told["plan"]) if rejected and told["plan"] else [])


def _where(job: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    name = job["name"] or words.short_id(job["id"])
    if not job["attempts"]:
        return f"{name} has no place yet: {job['reason'] or job['phase']}"
    if plan is None:
        return f"{name} is on {job['backend']}; {NO_PLAN}"
    choice = plan["choice"]
    if choice is None:
        return f"{name} is on {job['backend']}"
    why = plan_view.reasons({**choice, "wait": ""})  # it has begun; by now it may itself fill what was free
    place = " ".join(part for part in (plan_view.where(choice), plan_view.machine(choice)) if part)
    return f"{name} went to {place} ({plan['strategy']})" + (f": {why}" if why else "")


def _predictions(told: Mapping[str, Any]) -> list[str]:
    first, newest, actual = told["predicted"], told["newest"], told["actual"]
    rows = [_row(each, actual) for each in (first, newest if newest != first else None) if each]
    heading = ("PREDICTED FROM", "TIME", "COST", "SURE", *(("TIME OFF BY", "COST OFF BY") if actual else ()))
    lines = table.table(heading, rows) if rows else ["nothing was known to predict its time from"]
    return [*lines, *(_took(actual) if actual else []), ""]


def _took(actual: Mapping[str, Any]) -> list[str]:
    return [f"it took {words.duration(actual['seconds'])} and cost {words.money(actual['cost_microusd'])}"]


def _row(said: Mapping[str, Any], actual: Mapping[str, Any] | None) -> tuple[str, ...]:
    time = words.duration(said["wall_s"])
    span = f"{words.duration(said['wall_low_s'])} to {words.duration(said['wall_high_s'])}"
    cost = words.money(said["cost_microusd"])
    costs = f"{words.money(said['cost_low_microusd'])} to {words.money(said['cost_high_microusd'])}"
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
        _off(said["wall_s"], actual["seconds"]),
        _off(said["cost_microusd"], actual["cost_microusd"]),
    )


def _off(predicted: float, actual: float) -> str:
    return f"{(predicted / actual - 1) * 100:+.0f} %" if actual else "-"


def _runners_up(plan: Mapping[str, Any] | None) -> list[str]:
    if plan is None:
        return []
    others = [each for each in plan["short"] if not _same(each, plan["choice"])]
    return ["what else there was:", *plan_view.with_reasons(others)] if others else []


def _same(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    names = ("backend", "name", "region", "zone", "interruptible")
    return other is not None and all(one[name] == other[name] for name in names)
