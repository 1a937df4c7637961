"""A shared pool under four policies: how long jobs take, and how the worst-off tenant fares.

python -m bench.queue                        a generated trace of several tenants
python -m bench.queue --csv jobs.csv         timestamp, duration, num_gpus, cluster (a cluster is a tenant)
"""

import sys
from pathlib import Path

if not __package__:  # run as a file: this one's name must not stand for Python's own queue
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import argparse
import csv
import random
from collections.abc import Sequence
from datetime import datetime
from statistics import fmean

from bench.queue_replay import POLICIES, Submitted, completion_s
from bench.server import BenchServer, Figure

HOUR_S = 3600.0
LEAST_S = 60.0  # slowdowns of jobs of seconds say nothing
OURS, ORACLE, WORST = "anygpu", "shortest-remaining", "fifo"
OVER, OF_FIFO = 0.10, 0.50  # the targets

Found = tuple[float, float, str]


def main() -> None:
    options = arguments()
    trace = read(options.csv, options) if options.csv else generated(options)
    found = replayed(trace, options)
    for name, (mean_s, worst, tenant) in found.items():
        print(f"{name:<20} mean {mean_s / HOUR_S:7.2f} h   worst tenant's slowdown {worst:8.1f} ({tenant})")
    print(f"mean completion against the oracle: {over_oracle(found):+.1%} (target +{OVER:.0%})")
    print(f"worst tenant's slowdown against FIFO's: {of_fifo(found):.2f} (target {OF_FIFO:.2f})")


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    """Replay the generated trace."""
    options = arguments(["--jobs", "100"] if quick else [])
    found = replayed(generated(options), options)
    over, share = over_oracle(found), of_fifo(found)
    return [
        Figure(
            what="mean time from submission to end of a job",
            ours=f"{found[OURS][0] / HOUR_S:.2f} h",
            against=f"knows all durations: {found[ORACLE][0] / HOUR_S:.2f} h",
            ratio=f"{1 + over:.2f}",
            target=f"at most {1 + OVER:.2f}",
            met=over <= OVER,
            how="2,000 generated jobs; the other policy knows how long each job takes",
        ),
        Figure(
            what="how much longer jobs of the worst-off project take than on idle machines",
            ours=f"{found[OURS][1]:.1f}",
            against=f"first in, first out: {found[WORST][1]:.1f}",
            ratio=f"{share:.2f}",
            target=f"at most {OF_FIFO:.2f}",
            met=share <= OF_FIFO,
            how="the same jobs",
        ),
    ]


def replayed(trace: Sequence[Submitted], options: argparse.Namespace) -> dict[str, Found]:
    """Mean completion, the worst tenant's slowdown and who that is, for each policy."""
    gpus = options.gpus or pool_for(trace, options.load)
    tenants = sorted({each.tenant for each in trace})
    quota = dict.fromkeys(tenants, int(gpus * options.guaranteed / len(tenants)))
    print(f"{len(trace)} jobs, {len(tenants)} tenants, {gpus} GPUs, quota {quota[tenants[0]]} each")
    found: dict[str, Found] = {}
    for name, policy in POLICIES.items():
        restart_s = 0.0 if name == ORACLE else options.restart_s
        done = completion_s(trace, gpus, quota, policy, restart_s)
        found[name] = fmean(done.values()), *slowdowns(trace, done)
    return found


def over_oracle(found: dict[str, Found]) -> float:
    return found[OURS][0] / found[ORACLE][0] - 1


def of_fifo(found: dict[str, Found]) -> float:
    return found[OURS][1] / found[WORST][1]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--csv", type=Path, help="a trace; without it one is generated")
    parser.add_argument("--gpus", type=int, help="of the pool; without it as many as the load asks for")
    parser.add_argument("--load", type=float, default=0.85, help="mean demand over the pool's size (0.85)")
    parser.add_argument("--jobs", type=int, default=2000, help="at most so many jobs (2000)")
    parser.add_argument("--tenants", type=int, default=8, help="of the generated trace (8)")
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--guaranteed", type=float, default=0.5, help="share of the pool that is quota (0.5)")
    parser.add_argument(
        "--checkpointing", type=float, default=0.9, help="share of jobs that checkpoint (0.9)"
    )
    parser.add_argument("--restart-s", type=float, default=60.0, help="what being preempted costs (60)")
    return parser.parse_args(given)


def generated(options: argparse.Namespace) -> list[Submitted]:
    """Tenants of different size that submit in bursts; durations with a long tail; most jobs small."""
    chance = random.Random(options.seed)
    weights = [1 / (1 + number) for number in range(options.tenants)]
    trace: list[Submitted] = []
    now_s = 0.0
    while len(trace) < options.jobs:
        tenant = chance.choices(range(options.tenants), weights)[0]
        now_s += chance.expovariate(1 / 1500)
        for _ in range(min(1 + int(chance.paretovariate(1.3)), 60)):
            duration_s = min(max(chance.lognormvariate(7.6, 1.9), 30), 7 * 24 * HOUR_S)
            gpus = chance.choices((1, 2, 4, 8, 16, 32), (60, 12, 12, 11, 4, 1))[0]
            checkpoints = chance.random() < options.checkpointing
            at_s = now_s + chance.uniform(0, 300)
            trace.append(
                Submitted(f"job-{len(trace)}", f"tenant-{tenant}", gpus, at_s, duration_s, checkpoints)
            )
    return trace[: options.jobs]


def read(path: Path, options: argparse.Namespace) -> list[Submitted]:
    """The first jobs of a CSV, in order of time."""
    chance = random.Random(options.seed)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    missing = {"timestamp", "duration", "num_gpus"} - set(rows[0] if rows else ())
    if missing:
        sys.exit(f"{path} has no rows with {', '.join(sorted(missing))}; give a CSV with these columns.")
    trace = []
    for number, row in enumerate(rows, 2):
        try:
            at_s, duration_s, gpus = (
                instant_s(row["timestamp"]),
                float(row["duration"]),
                int(float(row["num_gpus"])),
            )
        except ValueError as error:
            sys.exit(f"{path}:{number}: {error}; expected a time, seconds and a number of GPUs.")
        if duration_s > 0 and gpus > 0:
            checkpoints = chance.random() < options.checkpointing
            trace.append(
                Submitted(f"job-{number}", row.get("cluster") or "all", gpus, at_s, duration_s, checkpoints)
            )
    trace.sort(key=lambda each: each.at_s)
    return trace[: options.jobs]


def instant_s(text: str) -> float:
    """Seconds, or a date and time."""
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


def pool_for(trace: Sequence[Submitted], load: float) -> int:
    span_s = max(each.at_s for each in trace) - min(each.at_s for each in trace)
    demand = sum(each.gpus * each.duration_s for each in trace)
    return max(max(each.gpus for each in trace), round(demand / max(span_s, 1.0) / load))


def slowdowns(trace: Sequence[Submitted], done: dict[str, float]) -> tuple[float, str]:
    """The tenant whose jobs took longest against what they would have taken alone."""
    by_tenant: dict[str, list[float]] = {}
    for each in trace:
        by_tenant.setdefault(each.tenant, []).append(done[each.id] / max(each.duration_s, LEAST_S))
    return max((max(1.0, fmean(values)), name) for name, values in by_tenant.items())


if __name__ == "__main__":
    main()
