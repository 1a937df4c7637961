"""`anygpu simulate`: replay a job with a deadline on recorded spot availability."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.plan.spot.policy import SpotJob
    from anygpu.plan.spot.replay import ReplayOutcome, TraceWindow

HEADING = ("POLICY", "MEAN", "P10", "MEDIAN", "P90", "DONE (MEDIAN)", "DONE (P90)", "RESTARTS", "LATE")
FILE = click.Path(exists=True, path_type=Path)


@click.command(name="simulate")
@click.argument("job", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--trace",
    "traces",
    multiple=True,
    required=True,
    type=FILE,
    help="File with the recorded spot availability of a zone, or a folder of such files. Repeatable.",
)
@click.option(
    "--work", help="Training time without interruptions, for example 48h (placement.expected_duration)."
)
@click.option("--deadline", help="Deadline, counted from the start, for example 52h (limits.deadline).")
@click.option(
    "--restart", default="6m", show_default=True, help="Time from launch to training, for each start."
)
@click.option(
    "--on-demand-price",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    help="Price of an on-demand machine, in dollars per hour.",
)
@click.option(
    "--spot-price",
    type=click.FloatRange(min=0, min_open=True),
    required=True,
    help="Price of a spot machine, in dollars per hour.",
)
@click.option("--zones", type=click.IntRange(min=1), help="Number of zones the job may use. Default: all.")
@click.option(
    "--windows",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Number of simulated runs, each from another start time in the recording.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed for the random choice of the start times."
)
@json_option
def simulate_command(job: Path | None, traces: tuple[Path, ...], as_json: bool, **options: Any) -> None:
    """Replay JOB (a job file) on recorded spot availability, from many start times.

    Shows the distribution of cost and finishing time of three policies: on-demand only, Uniform Progress (a
    published spot policy), and the policy that anygpu uses for jobs with a deadline. Nothing is submitted.
    """
    from anygpu.plan.spot.replay import read_traces, sample_windows

    times = _parse_times(job, options)
    records = [record for place in traces for record in read_traces(place)]
    windows = sample_windows(
        records,
        zones=min(options["zones"] or len(records), len(records)),
        length_s=times["deadline_s"],
        count=options["windows"],
        seed=options["seed"],
    )
    replays = _replay_all([(_spot_job(times, window, options), window) for window in windows])
    rows = {name: _summary(outcomes) for name, outcomes in replays.items()}
    if as_json:
        emit_json({**times, "windows": options["windows"], "policies": rows})
    else:
        emit(output.table(HEADING, [(name, *_summary_cells(row)) for name, row in rows.items()]))


def _parse_times(path: Path | None, options: dict[str, Any]) -> dict[str, float]:
    """Return the work, deadline and restart times in seconds, from the options or else from the job file."""
    in_file = _times_in_job_file(path) if path else {}
    given = {name: _parse_seconds(name, options[name]) for name in ("work", "deadline", "restart")}
    work_s, deadline_s = (
        given["work"] or in_file.get("work_s"),
        given["deadline"] or in_file.get("deadline_s"),
    )
    if not work_s:
        raise click.UsageError(
            "Missing training time. Use --work, or placement.expected_duration in the job file."
        )
    if not deadline_s:
        raise click.UsageError("Missing deadline. Use --deadline, or limits.deadline in the job file.")
    restart_s = given["restart"] or 0.0
    if work_s + restart_s > deadline_s:
        needed, left = formatting.duration(work_s + restart_s), formatting.duration(deadline_s)
        raise click.UsageError(
            f"The deadline is too short: the training and one start take {needed}, but the deadline is {left} "
            "after the start. Give a later --deadline or less --work."
        )
    return {"work_s": work_s, "deadline_s": deadline_s, "restart_s": restart_s}


def _times_in_job_file(path: Path) -> dict[str, float | None]:
    from datetime import UTC, datetime

    from anygpu.spec import from_file

    spec, now = from_file(path), datetime.now(UTC)
    until = spec.limits.deadline_from(now)
    return {
        "work_s": spec.placement.expected_duration_s,
        "deadline_s": (until - now).total_seconds() if until else None,
    }


def _parse_seconds(name: str, text: str | None) -> float | None:
    from anygpu.spec import units

    try:
        return None if text is None else float(units.seconds(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=f"--{name}") from error


def _spot_job(times: dict[str, float], window: TraceWindow, options: dict[str, Any]) -> SpotJob:
    from anygpu.plan.spot.policy import SpotJob

    return SpotJob(
        **times,
        on_demand_usd_per_hour=options["on_demand_price"],
        spot_usd_per_hour=dict.fromkeys(window.available, options["spot_price"]),
    )


def _replay_all(starts: Sequence[tuple[SpotJob, TraceWindow]]) -> dict[str, list[ReplayOutcome]]:
    from anygpu.plan.spot.replay import POLICIES, replay

    shown = {name: policy for name, policy in POLICIES.items() if name != "greedy"}
    return {
        name: [replay(job, window.available, window.tick_s, policy) for job, window in starts]
        for name, policy in shown.items()
    }


def _summary(outcomes: Sequence[ReplayOutcome]) -> dict[str, float]:
    costs = sorted(outcome.cost_usd for outcome in outcomes)
    done = sorted(outcome.finished_s for outcome in outcomes)
    return {
        "mean_usd": sum(costs) / len(costs),
        "p10_usd": _quantile(costs, 0.1),
        "median_usd": _quantile(costs, 0.5),
        "p90_usd": _quantile(costs, 0.9),
        "median_done_s": _quantile(done, 0.5),
        "p90_done_s": _quantile(done, 0.9),
        "mean_restarts": sum(outcome.restarts for outcome in outcomes) / len(outcomes),
        "late": sum(outcome.late for outcome in outcomes),
    }


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(share * len(values)))]


def _summary_cells(row: dict[str, float]) -> tuple[str, ...]:
    money = [f"${row[name]:.2f}" for name in ("mean_usd", "p10_usd", "median_usd", "p90_usd")]
    done = [formatting.duration(row[name]) for name in ("median_done_s", "p90_done_s")]
    return *money, *done, f"{row['mean_restarts']:.1f}", str(int(row["late"]))
