"""`anygpu costs`: what the project has spent, and what a job would cost at other providers."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json

GROUPINGS = ("day", "person", "backend", "gpu", "tag")
NO_KEY = {"gpu": "no GPU", "tag": "no tag"}
HEADING = ("COST", "SHARE", "MACHINE H", "GPU H", "JOBS", "SPOT", "SAVED", "LOST")
PROVIDERS_HEADING = ("PROVIDER", "GPU", "PER HOUR", "TOTAL", "TIME", "AVAILABLE", "FEATURES", "")
VERDICTS = {"cheapest": "cheapest", "fastest": "fastest", "balanced": "best balance", "": ""}
NO_COSTS = "Nothing has used a machine in this time."
HOUR_S = 3600
DATE = click.DateTime(formats=["%Y-%m-%d"])


@click.command(name="costs")
@click.option(
    "--by", type=click.Choice(GROUPINGS), default="backend", help="Add up by this. Default: backend."
)
@click.option("--from", "first", type=DATE, help="First day. Default: the first of this month.")
@click.option("--to", "last", type=DATE, help="Last day. Default: today.")
@click.option(
    "--timezone", default="", help="Of the days: a name or an offset. Default: that of this computer."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option(
    "--compare", "job", metavar="JOB", help="Show what this job would cost at each provider instead."
)
@json_option
@context_option
def costs_command(
    by: str,
    first: Any,
    last: Any,
    timezone: str,
    as_csv: bool,
    job: str | None,
    as_json: bool,
    context_name: str,
) -> None:
    """Show what the project has spent, by day, person, backend, GPU or tag.

    Running jobs count until now. The costs of deleted jobs stay.
    """
    if as_csv and as_json:
        raise click.UsageError("Use either --csv or --json.")
    client = connect(context_name)
    if job is not None:
        _show_comparison(client.compare_costs(job=job), as_json=as_json)
        return
    days = {name: day.date().isoformat() for name, day in (("first", first), ("last", last)) if day}
    zone = timezone or local_offset()
    if as_csv:
        sys.stdout.write(client.costs_csv(by, timezone=zone, **days).decode().replace("\r\n", "\n"))
        return
    table = client.costs(by, timezone=zone, **days)
    summary = client.cost_summary(timezone=zone)
    if as_json:
        emit_json({"summary": summary, "costs": table})
        return
    emit([*summary_lines(summary), "", *table_lines(table)])


def local_offset() -> str:
    """Return the offset of this computer's time zone from UTC, such as `+02:00`."""
    from datetime import datetime

    text = datetime.now().astimezone().strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    total, projection = summary["total"], summary["projection"]
    lost, saved = total["lost_microusd"], total["saved_microusd"]
    pairs = [
        ("Month so far", f"{_money(total['microusd'])}, {_money(summary['today_microusd'])} today"),
        ("Whole month", _projection_text(projection) if projection else "-"),
        ("Saved by spot", f"{_money(saved)}{_share(saved, summary['on_demand_microusd'])}"),
        ("Work lost", f"{_money(lost)}, {_lost_text(total)}"),
        ("Predictions", _predictions_text(summary["predictions"])),
    ]
    return output.fields(pairs)


def _projection_text(projection: Mapping[str, Any]) -> str:
    low, high = _money(projection["low_microusd"]), _money(projection["high_microusd"])
    return f"{_money(projection['microusd'])} expected ({low} to {high})"


def _lost_text(total: Mapping[str, Any]) -> str:
    interruptions = formatting.plural(total["interruptions"], "interruption")
    return f"{interruptions}, {formatting.duration(total['lost_s'])} of training"


def _predictions_text(predictions: Mapping[str, Any]) -> str:
    errors = predictions["cost"] or predictions["time"]
    if errors is None:
        return "no predicted job has completed this month"
    noun = "cost" if predictions["cost"] else "time"
    return (
        f"{noun} {100 * errors['median_error']:.1f}% off (median), "
        f"{errors['held']} of {errors['jobs']} inside the interval"
    )


def table_lines(table: Mapping[str, Any]) -> list[str]:
    if not table["groups"]:
        return [f"{table['first_day']} to {table['last_day']}: {NO_COSTS}"]
    total, by = table["total"], table["by"]
    rows = [(_key_text(by, group["key"]), *_cells(group, total)) for group in table["groups"]]
    if table["rest"] is not None:
        rows.append((f"{table['rest']['groups']} others", *_cells(table["rest"], total)))
    rows.append(("all", *_cells(total, total)))
    notes = ["A job with several tags counts for each of them."] if table["overlap_microusd"] else []
    return [*output.table((by.upper(), *HEADING), rows), *notes]


def _key_text(by: str, key: str) -> str:
    return key or NO_KEY.get(by, "unknown")


def _cells(sums: Mapping[str, Any], total: Mapping[str, Any]) -> tuple[str, ...]:
    spot = f"{100 * sums['spot_microusd'] / sums['microusd']:.0f}%" if sums["spot_microusd"] else "-"
    return (
        _money(sums["microusd"]),
        f"{100 * sums['microusd'] / total['microusd']:.0f}%" if total["microusd"] else "-",
        _hours(sums["machine_s"]),
        _hours(sums["gpu_s"]),
        str(sums["jobs"]),
        spot,
        _money(sums["saved_microusd"]) if sums["saved_microusd"] else "-",
        _money(sums["lost_microusd"]) if sums["lost_microusd"] else "-",
    )


def _money(microusd: int) -> str:
    return formatting.money(microusd)


def _hours(seconds: float) -> str:
    hours = seconds / HOUR_S
    return "-" if not hours else f"{hours:.0f}" if hours >= 100 else f"{hours:.2f}"


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.0f}% of {_money(whole)} on demand)" if part and whole else ""


def _show_comparison(comparison: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json(comparison)
        return
    emit(comparison_lines(comparison))


def comparison_lines(comparison: Mapping[str, Any]) -> list[str]:
    providers: Sequence[Mapping[str, Any]] = comparison["providers"]
    if not providers:
        return [f"No provider has a machine for {comparison['name']}."]
    more = [f"{comparison['more']} more kinds of machines."] if comparison["more"] else []
    rows = [_provider_row(each) for each in providers]
    return [*output.table(PROVIDERS_HEADING, rows), *more, f"Recommended: {comparison['recommendation']}"]


def _provider_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    total, seconds = each["total_microusd"], each["seconds"]
    nodes = each.get("nodes", 1)
    gpu = f"{each['gpus']}x {each['gpu']}" if each["gpus"] > 1 else each["gpu"] or "no GPU"
    span = f" ({_money(total['low'])} to {_money(total['high'])})" if total["expected"] else ""
    return (
        " ".join(part for part in (each["provider"], each["machine"]) if part),
        f"{nodes} nodes: {gpu}" if nodes > 1 else gpu,
        _money(each["price_microusd_per_hour"] * nodes),
        f"{_money(total['expected'])}{span}",
        formatting.duration(seconds["expected"]),
        each["available"],
        ", ".join(each["features"]),
        VERDICTS.get(each["verdict"], each["verdict"]),
    )
