"""Replay spot traces: what a 48 h job with a deadline costs under each policy, and the least it could have cost.

python -m bench.spot --traces DIR            recorded traces (JSON: metadata.gap_seconds, data)
python -m bench.spot                         made-up zones: scarce, flapping, bursty, plenty, balanced
python -m bench.spot --made-up neighbours    made-up zones that run short together or follow the day
"""

import argparse
import sys
from pathlib import Path

if not __package__:  # run as a file: this folder holds a queue.py that must not stand for Python's own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from anygpu.errors import AnygpuError
from anygpu.plan.spot.policy import SpotJob
from anygpu.plan.spot.replay import (
    POLICIES,
    SYNTHETIC_ZONES,
    SpotTrace,
    TraceWindow,
    read_traces,
    replay,
    sample_windows,
    synthetic_trace,
)
from bench.peers import ROOT
from bench.server import BenchServer, Figure
from bench.spot_optimum import Optimum
from bench.spot_zones import neighbours

HOUR_S = 3600
WORK_H = 48
DEADLINES_H = (52, 70)
RESTARTS_H = (0.02, 0.05, 0.1, 0.2)
ON_DEMAND_USD, SPOT_USD = 3.06, 0.9731
ZONES = (1, 3)
OURS, REFERENCE, WITHIN = "anygpu", "uniform-progress", 0.04
RECORDED = ROOT.parent / "shared" / "data" / "spot"


@dataclass(frozen=True)
class Cell:
    zones: int
    deadline_h: float
    restart_h: float


@dataclass(frozen=True)
class Row:
    """Sums over the windows of a cell."""

    cell: Cell
    windows: int
    optimum_usd: float
    cost_usd: dict[str, float]
    ratio: dict[str, float]  # of each window's cost to its optimum
    late: dict[str, int]

    def over(self, name: str) -> float:
        """How far the mean cost is above the mean of the optimum."""
        return self.cost_usd[name] / self.optimum_usd - 1


def main() -> None:
    options = arguments()
    try:
        rows = list(measured(read_traces(options.traces) if options.traces else generated(options), options))
    except AnygpuError as error:
        sys.exit(str(error))
    for row in rows:
        print(line(row))
    report(rows)


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    """Replay recorded traces where the folder with them is present, else generated zones."""
    recorded = RECORDED.is_dir() and not quick
    options = arguments(["--windows", "1"] if quick else [])
    rows = list(measured(read_traces(RECORDED) if recorded else generated(options), options))
    overall = summed(rows[0].cell, rows)
    over, dear = overall.over(OURS), len(dearer(rows))
    how = f"{overall.windows} simulated jobs on {'recorded' if recorded else 'generated'} spot availability"
    return [
        figure(
            "jobs that missed their deadline",
            str(overall.late[OURS]),
            "",
            "none",
            not overall.late[OURS],
            how,
        ),
        figure("settings in which it costs more than Uniform Progress", str(dear), "", "none", not dear, how),
        figure(
            "mean cost above the optimum, which knows the future",
            f"{over:.1%}",
            f"Uniform Progress {overall.over(REFERENCE):.1%}",
            f"at most {WITHIN:.0%}",
            over <= WITHIN,
            how,
        ),
    ]


def figure(what: str, ours: str, against: str, target: str, met: bool, how: str) -> Figure:
    return Figure(what=what, ours=ours, against=against, ratio="", target=target, met=met, how=how)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, help="folder of traces, or one trace; made-up ones without it")
    parser.add_argument("--made-up", choices=["moods", "neighbours"], default="moods", help="which zones")
    parser.add_argument("--windows", type=int, default=64, help="windows per cell (default 64)")
    parser.add_argument("--seed", type=int, default=2024, help="of the windows (default 2024)")
    parser.add_argument(
        "--part", choices=["all", "first", "second"], default="all", help="half of each trace"
    )
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args(given)


def generated(options: argparse.Namespace) -> list[SpotTrace]:
    if options.made_up == "neighbours":
        return neighbours(options.seed)
    return [synthetic_trace(kind, options.seed + number) for kind in SYNTHETIC_ZONES for number in range(2)]


def halved(trace: SpotTrace, part: str) -> SpotTrace:
    middle = len(trace.available) // 2
    kept = {"all": slice(None), "first": slice(middle), "second": slice(middle, None)}[part]
    return SpotTrace(trace.zone, trace.tick_s, trace.available[kept])


def measured(traces: Sequence[SpotTrace], options: argparse.Namespace) -> Iterator[Row]:
    chosen = [halved(trace, options.part) for trace in traces]
    cells = [
        Cell(zones, deadline_h, restart_h)
        for zones in ZONES
        if zones <= len(chosen)
        for deadline_h in DEADLINES_H
        for restart_h in RESTARTS_H
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        for cell in cells:
            windows = sample_windows(
                chosen,
                zones=cell.zones,
                length_s=max(DEADLINES_H) * HOUR_S,
                count=options.windows,
                seed=options.seed,
            )
            yield summed(cell, list(pool.map(played, [cell] * options.windows, windows, chunksize=4)))


def played(cell: Cell, window: TraceWindow) -> Row:
    """One window under every policy."""
    job = job_of(cell, window)
    during = shortened(job, window)
    outcomes = {name: replay(job, during, window.tick_s, policy) for name, policy in POLICIES.items()}
    optimum = Optimum(job, list(window.available), window.tick_s)
    least_usd = optimum.cost_usd(window.available, int(job.deadline_s // window.tick_s))
    return Row(
        cell=cell,
        windows=1,
        optimum_usd=least_usd,
        cost_usd={name: outcome.cost_usd for name, outcome in outcomes.items()},
        ratio={name: outcome.cost_usd / least_usd for name, outcome in outcomes.items()},
        late={name: int(outcome.late) for name, outcome in outcomes.items()},
    )


def job_of(cell: Cell, window: TraceWindow) -> SpotJob:
    return SpotJob(
        work_s=WORK_H * HOUR_S,
        deadline_s=cell.deadline_h * HOUR_S,
        restart_s=round(cell.restart_h * HOUR_S),
        on_demand_usd_per_hour=ON_DEMAND_USD,
        spot_usd_per_hour=dict.fromkeys(window.available, SPOT_USD),
    )


def shortened(job: SpotJob, window: TraceWindow) -> dict[str, Sequence[int]]:
    ticks = int(job.deadline_s // window.tick_s)
    return {zone: available[:ticks] for zone, available in window.available.items()}


def summed(cell: Cell, rows: Sequence[Row]) -> Row:
    return Row(
        cell=cell,
        windows=sum(row.windows for row in rows),
        optimum_usd=sum(row.optimum_usd for row in rows),
        cost_usd={name: sum(row.cost_usd[name] for row in rows) for name in POLICIES},
        ratio={name: sum(row.ratio[name] for row in rows) for name in POLICIES},
        late={name: sum(row.late[name] for row in rows) for name in POLICIES},
    )


def line(row: Row) -> str:
    cell = row.cell
    costs = "  ".join(told(row, name) for name in POLICIES)
    head = f"{cell.zones} zone{'s' if cell.zones > 1 else ' '}  {cell.deadline_h:g} h  {cell.restart_h:<4g} h"
    return f"{head}  optimum ${row.optimum_usd / row.windows:.2f}  {costs}"


def told(row: Row, name: str) -> str:
    """Mean cost, how far from the optimum, and how many were late."""
    return f"{name} ${row.cost_usd[name] / row.windows:.2f} ({row.over(name):+.1%}, {row.late[name]} late)"


def report(rows: Sequence[Row]) -> None:
    """All cells together, and whether what was promised holds."""
    for title, kept in slices():
        chosen = [row for row in rows if kept(row.cell)]
        if chosen:
            print(f"{title:<12}" + "  ".join(told(summed(chosen[0].cell, chosen), name) for name in POLICIES))
    overall = summed(rows[0].cell, rows)
    cells = sum(row.over(OURS) for row in rows) / len(rows)
    windows = overall.ratio[OURS] / overall.windows - 1
    print(f"late: {overall.late[OURS]} of {overall.windows}")
    print(f"cells dearer than Uniform Progress: {len(dearer(rows))} of {len(rows)}")
    print(f"mean cost over the optimum's mean: {overall.over(OURS):.2%} (target {WITHIN:.0%})")
    print(f"mean of the cells' ratios: {cells:.2%}; of the windows': {windows:.2%}")


def dearer(rows: Sequence[Row]) -> list[Cell]:
    return [row.cell for row in rows if row.cost_usd[OURS] > row.cost_usd[REFERENCE] + 1e-6]


def slices() -> list[tuple[str, Callable[[Cell], bool]]]:
    return [
        ("one zone", lambda cell: cell.zones == 1),
        ("three zones", lambda cell: cell.zones == 3),
        ("overall", lambda cell: True),
    ]


if __name__ == "__main__":
    main()
