"""`anygpu explain` and `anygpu accuracy`: compare plans and predictions with what happened."""

from collections.abc import Mapping
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal import formatting, job_lines, output, plan_lines
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.control.ids import short_id

NO_PLAN = (
    "no comparison of offers is stored: the job ended before offers were compared, or the plan was deleted. "
    "`anygpu plan` compares offers for a new job."
)
BASIS = {
    "said": "the duration given with the job",
    "history": "earlier runs of the same job",
    "code": "the code",
    "first steps": "the first steps",
}


@click.command(name="explain")
@click.argument("job", default="last")
@click.option("--rejected", is_flag=True, help="Also show the offers that did not fit, and why.")
@json_option
@context_option
def explain_command(job: str, rejected: bool, as_json: bool, context_name: str) -> None:
    """Show why a JOB ran where it did, the other offers, and the prediction compared with the result.

    JOB is an id (or the start of it), a name, or `last`.
    """
    client = connect(context_name)
    details = client.job(job)
    kept = client.kept_plan(details["id"])
    if as_json:
        emit_json(kept)
        return
    emit([_placement_text(details, kept["plan"]), ""])
    emit(_prediction_lines(kept))
    emit([job_lines.better_offer_text(details), ""] if details.get("better") else [])
    emit([f"Resume: {details['resume']['message']}", ""] if details.get("resume") else [])
    emit(_other_offers(kept["plan"]))
    emit(plan_lines.rejected_lines(kept["plan"]) if rejected and kept["plan"] else [])


def _placement_text(job: Mapping[str, Any], plan: Mapping[str, Any] | None) -> str:
    name = job["name"] or short_id(job["id"])
    if not job["attempts"]:
        if job["phase"] == "ended":
            return f"{name} never had a machine: the job was {job['status']} before."
        return f"{name} has no machine yet: {job['reason'] or job['phase']}."
    if plan is None:
        return f"{name} runs on {job['backend']}; {NO_PLAN}"
    choice = plan["choice"]
    if choice is None:
        return f"{name} runs on {job['backend']}."
    reasons = plan_lines.reasons_text({**choice, "wait": ""})  # the job has started, so the wait is over
    why = "; ".join(filter(None, (plan_lines.nodes_text(choice), reasons)))
    place = " ".join(
        part for part in (plan_lines.location_text(choice), plan_lines.machine_text(choice)) if part
    )
    return f"{name} was placed on {place} (strategy: {plan['strategy']})" + (f": {why}" if why else "")


def _prediction_lines(kept: Mapping[str, Any]) -> list[str]:
    first, newest, actual = kept["predicted"], kept["newest"], kept["actual"]
    rows = [_prediction_row(each, actual) for each in (first, newest if newest != first else None) if each]
    heading = (
        "PREDICTED FROM",
        "TIME",
        "COST",
        "CONFIDENCE",
        *(("TIME ERROR", "COST ERROR") if actual else ()),
    )
    lines = (
        output.table(heading, rows)
        if rows
        else ["No prediction: nothing is known about how long the job takes."]
    )
    return [*lines, *(_actual_lines(actual) if actual else []), ""]


def _actual_lines(actual: Mapping[str, Any]) -> list[str]:
    return [f"Actual: {formatting.duration(actual['seconds'])}, {formatting.money(actual['cost_microusd'])}"]


def _prediction_row(prediction: Mapping[str, Any], actual: Mapping[str, Any] | None) -> tuple[str, ...]:
    time = formatting.duration(prediction["wall_s"])
    span = (
        f"{formatting.duration(prediction['wall_low_s'])} to {formatting.duration(prediction['wall_high_s'])}"
    )
    cost = formatting.money(prediction["cost_microusd"])
    low, high = prediction["cost_low_microusd"], prediction["cost_high_microusd"]
    costs = f"{formatting.money(low)} to {formatting.money(high)}"
    cells = (
        BASIS.get(prediction["basis"], prediction["basis"]),
        f"{time} ({span})",
        f"{cost} ({costs})",
        prediction["confidence"],
    )
    if actual is None:
        return cells
    return (
        *cells,
        _percent_off(prediction["wall_s"], actual["seconds"]),
        _percent_off(prediction["cost_microusd"], actual["cost_microusd"]),
    )


def _percent_off(predicted: float, actual: float) -> str:
    return f"{(predicted / actual - 1) * 100:+.0f} %" if actual else "-"


def _other_offers(plan: Mapping[str, Any] | None) -> list[str]:
    if plan is None:
        return []
    others = [each for each in plan["short"] if not _is_same_offer(each, plan["choice"])]
    return ["Other offers:", *plan_lines.offer_table(others)] if others else []


def _is_same_offer(one: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    names = ("backend", "name", "region", "zone", "interruptible")
    return other is not None and all(one[name] == other[name] for name in names)


ACCURACY_HEADING = ("PREDICTED", "FROM", "OF", "JOBS", "MEDIAN ERROR", "P90 ERROR", "IN INTERVAL", "WIDTH")
NO_PREDICTIONS = (
    "No predictions yet: no job with a prediction has completed.",
    "Run a job that reports its steps with `anygpu.progress(step=..., steps=...)`, or use a trainer.",
)


@click.command(name="accuracy")
@json_option
@context_option
def accuracy_command(as_json: bool, context_name: str) -> None:
    """Compare predicted times and costs with actual ones, for completed jobs."""
    accuracy = connect(context_name).accuracy()
    if as_json:
        emit_json(accuracy)
    else:
        emit(accuracy_lines(accuracy))


def accuracy_lines(accuracy: Mapping[str, Any]) -> list[str]:
    if not accuracy["jobs"]:
        return list(NO_PREDICTIONS)
    whens = (("before the run", accuracy["before"]), ("after its first steps", accuracy["first_steps"]))
    rows = [row for when, errors in whens for row in _accuracy_rows(when, errors)]
    target = f"Newest {formatting.plural(accuracy['jobs'], 'job')}. Target: 90% of results in the predicted interval."
    return [*output.table(ACCURACY_HEADING, rows), "", target]


def _accuracy_rows(when: str, errors: Mapping[str, Any]) -> list[tuple[str, ...]]:
    bases = errors.get("by_basis") or {}
    groups = [("all", errors), *bases.items()] if len(bases) > 1 else [*bases.items()]
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
