"""How good predictions are on recorded step logs: `python -m bench accuracy`, or `python -m bench.accuracy --logs DIR`.

docs/explanation/accuracy.md says what is counted, and how a log is written.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.events.offers import Billing
from anygpu.plan.offers.bill import Span
from anygpu.plan.predict.accuracy import interval_score
from anygpu.plan.predict.first_steps import CONFIDENT_STEPS, StepTimes, combine_estimates, forecast_duration
from anygpu.plan.predict.history import PastRun, RunMachine, predict_from_history
from bench.server import BenchServer, Figure

RECORDED = Path(__file__).with_name("recorded")
WITHIN, TARGET, HELD, MEMORY = 0.15, 0.95, 0.90, 0.20
HERE = RunMachine(backend="local")
PRICE, BILLING = 1_200_000, Billing(step_s=1, minimum_s=60)
SCALE = 60  # a recorded second is billed as a minute: trainings that are paid for are longer


@dataclass(frozen=True, kw_only=True)
class Log:
    """One run. `workload`: equal for runs whose steps are alike."""

    workload: str
    steps: int
    times_s: Sequence[float]
    total_s: float
    steps_per_epoch: int | None = None
    grows: bool = False


@dataclass(frozen=True, kw_only=True)
class Said:
    """A prediction of a run's seconds, and the run."""

    log: Log
    span: Span

    @property
    def time_error(self) -> float:
        return abs(self.span.expected / self.log.total_s - 1)

    @property
    def cost_error(self) -> float:
        return abs(_cost(self.span.expected) / _cost(self.log.total_s) - 1)

    @property
    def held(self) -> bool:
        return self.span.low <= self.log.total_s <= self.span.high

    @property
    def score(self) -> float:
        return interval_score(self.span.low, self.span.high, self.log.total_s)


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    return figures(read(RECORDED))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, default=RECORDED, help="a directory of logs, or one file")
    parser.add_argument("--each", action="store_true", help="print every run")
    asked = parser.parse_args()
    logs = read(asked.logs)
    if asked.each:
        for said in first_steps(logs):
            print(
                f"{said.log.workload:24} {said.log.steps:6} steps  off by {said.time_error:6.1%}  held {said.held}"
            )
    found = figures(logs)
    for figure in found:
        mark = "ok  " if figure.met else "MISS"
        print(f"{mark} {figure.what}: {figure.ours} ({figure.against}) {figure.ratio} [{figure.target}]")
    sys.exit(0 if all(figure.met for figure in found) else 1)


def read(path: Path) -> list[Log]:
    """Every `*.json` of a directory; a file is one run, or many under `runs`."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    logs = [log for file in files for log in _logs(file.stem, json.loads(file.read_text()))]
    if not logs:
        raise SystemExit(
            f"{path}: no log has more than {CONFIDENT_STEPS} steps. See docs/explanation/accuracy.md for the format."
        )
    return logs


def _logs(name: str, found: Any) -> Iterator[Log]:
    runs = found if isinstance(found, list) else found.get("runs", [found])
    for run in runs:
        times = [float(each) for each in run["times_s"]]
        if len(times) > CONFIDENT_STEPS:
            yield Log(
                workload=str(run.get("workload", name)),
                steps=int(run["steps"]),
                times_s=times,
                total_s=float(run.get("total_s", times[-1])),
                steps_per_epoch=run.get("steps_per_epoch"),
                grows=bool(run.get("grows", False)),
            )


def figures(logs: Sequence[Log]) -> list[Figure]:
    alone, before, both = first_steps(logs), held_back(logs), with_history(logs)
    return [
        _within("after 15 steps, without past runs", alone),
        *([_within("after 15 steps, with past runs", both)] if before else []),
        *([_coverage("before the run, from past runs", before)] if before else []),
        _coverage("after 15 steps", both if before else alone),
        _memory(),
    ]


def first_steps(logs: Sequence[Log]) -> list[Said]:
    return [Said(log=log, span=_after(log)) for log in logs]


def held_back(logs: Sequence[Log]) -> list[Said]:
    """Each run from the other runs of its workload; a workload with one run has no history."""
    found = [(log, _before(log, [other for other in logs if other is not log])) for log in logs]
    return [Said(log=log, span=span) for log, span in found if span is not None]


def with_history(logs: Sequence[Log]) -> list[Said]:
    known = {id(said.log): said.span for said in held_back(logs)}
    return [
        Said(
            log=log, span=combine_estimates(_after(log), known[id(log)]) if id(log) in known else _after(log)
        )
        for log in logs
    ]


def _after(log: Log) -> Span:
    run = StepTimes(
        times_s=log.times_s[:CONFIDENT_STEPS],
        total_steps=log.steps,
        steps_per_epoch=log.steps_per_epoch,
        steps_grow=log.grows,
    )
    found = forecast_duration(run)
    assert found is not None
    return Span(expected=found.total_s, low=found.low_s, high=found.high_s)


def _before(log: Log, others: Sequence[Log]) -> Span | None:
    past = [
        PastRun(machine=HERE, training_s=other.total_s, steps=other.steps)
        for other in others
        if other.workload == log.workload
    ]
    guess = predict_from_history(HERE, past, steps=log.steps)
    return None if guess is None else guess.training_s


def _cost(seconds: float) -> int:
    return BILLING.cost_microusd(PRICE, round(SCALE * seconds))


def _within(what: str, said: Sequence[Said]) -> Figure:
    times, costs = [each.time_error for each in said], [each.cost_error for each in said]
    good = sum(time <= WITHIN and cost <= WITHIN for time, cost in zip(times, costs, strict=True))
    return Figure(
        what=f"runs predicted within {WITHIN:.0%} in time and cost, {what}",
        ours=f"{good / len(said):.0%}",
        against=f"{len(said)} recorded runs of {len({each.log.workload for each in said})} workloads",
        ratio=f"median error {statistics.median(times):.1%} in time, {statistics.median(costs):.1%} in cost",
        target=f"at least {TARGET:.0%}",
        met=good >= TARGET * len(said),
        how="CPU time; includes evaluations and checkpoints",
    )


def _coverage(what: str, said: Sequence[Said]) -> Figure:
    held = sum(each.held for each in said)
    widths = [each.span.high / each.span.low for each in said]
    return Figure(
        what=f"predicted intervals that contain the actual time, {what}",
        ours=f"{held / len(said):.0%}",
        against=f"{len(said)} runs, each predicted from similar runs",
        ratio=f"median width x{statistics.median(widths):.2f}, score {statistics.fmean(s.score for s in said):.2f}",
        target=f"at least {HELD:.0%}",
        met=held >= HELD * len(said),
        how="[width and score](explanation/accuracy.md#how-the-runs-are-recorded-and-scored)",
    )


def _memory() -> Figure:
    from tests.unit.plan.analyse.published import figures as published

    errors = [abs(figure.error) for figure in published()]
    return Figure(
        what="predicted peak GPU memory: median error",
        ours=f"{statistics.median(errors):.1%}",
        against=f"{len(errors)} published figures",
        ratio="",
        target=f"at most {MEMORY:.0%}",
        met=statistics.median(errors) <= MEMORY,
        how="tests/unit/plan/published_memory.json",
    )


if __name__ == "__main__":
    main()
