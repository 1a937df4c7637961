"""Run simulated histories: `python -m anygpu.testing.simulate --histories 10000`.

For each history that fails, its seed and the violated invariants are printed. `--replay SEED` runs the
history of a seed again and prints each event.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from anygpu.control.reconcile.verdict import MIGRATION_REASON
from anygpu.events.types import Event, StopRequested
from anygpu.testing.invariants import Violation, violations
from anygpu.testing.simulation.faults import Fault
from anygpu.testing.simulation.providers.backend import charged_microusd as charge
from anygpu.testing.simulation.scenario import Scenario, scenario_for_seed
from anygpu.testing.simulation.virtual_time import Deadlock, VirtualLoop
from anygpu.testing.simulation.world import SimWorld, Store

CHUNK = 25  # seeds that a worker plays before it reports


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The result of one simulated history: violated invariants, unexpected errors, faults, events and costs."""

    seed: str
    violations: tuple[Violation, ...]
    problems: tuple[str, ...]
    faults: Counter[Fault]
    trace_hash: str
    trace: tuple[str, ...]
    events: tuple[Event, ...]  # events of all jobs, in the order of their commits
    charged_microusd: int  # total according to the providers' own records
    lasted_s: float
    steps: int
    writes: int  # number of writes of the first control process

    @property
    def failed(self) -> bool:
        return bool(self.violations or self.problems)

    def __str__(self) -> str:
        failures = [str(violation) for violation in self.violations] + [
            f"unexpected: {p}" for p in self.problems
        ]
        return f"seed {self.seed} ({self.trace_hash}): " + ("; ".join(failures[:5]) or "held")


def play(scenario: Scenario, store: Store = "memory") -> History:
    """Simulate the history of one scenario, check the invariants, and return the result."""
    loop = VirtualLoop()
    world = SimWorld(scenario, loop, store)
    broken: list[Violation] = []
    try:
        loop.run_until_complete(world.run())
        broken = loop.run_until_complete(violations(world))
    except Deadlock as error:
        world.problems.append(str(error))
    problems, lasted_s, steps = tuple(world.problems), loop.time(), loop.steps
    charged = sum(charge(provider, machine) for provider in world.providers for machine in provider.machines)
    loop.finish()
    return History(
        seed=scenario.seed,
        violations=tuple(broken),
        problems=problems,
        faults=world.faults.counts,
        trace_hash=world.trace_hash(),
        trace=tuple(world.lines),
        events=tuple(commit.recorded.event for commit in world.recorder.commits),
        charged_microusd=charged,
        lasted_s=lasted_s,
        steps=steps,
        writes=world.processes[0].life.writes,
    )


@dataclass(slots=True)
class HistoriesSummary:
    """The totals of many histories."""

    histories: int = 0
    steps: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)
    preemptions: int = 0  # jobs stopped for another job
    migrations: int = 0  # jobs moved to a better offer
    failed: list[History] = field(default_factory=list)

    def add(self, history: History) -> None:
        self.histories += 1
        self.steps += history.steps
        self.faults.update(history.faults)
        stops = [event for event in history.events if isinstance(event, StopRequested)]
        self.preemptions += sum(bool(stop.makes_room_for) for stop in stops)
        self.migrations += sum(stop.reason == MIGRATION_REASON for stop in stops)
        if history.failed:
            self.failed.append(history)

    def merge(self, other: "HistoriesSummary") -> None:
        self.histories += other.histories
        self.steps += other.steps
        self.faults.update(other.faults)
        self.preemptions += other.preemptions
        self.migrations += other.migrations
        self.failed += other.failed


def play_seeds(seeds: Iterable[int], store: Store = "memory") -> HistoriesSummary:
    summary = HistoriesSummary()
    for seed in seeds:
        summary.add(play(scenario_for_seed(seed), store))
    return summary


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.replay is not None:
        return _replay(options.replay, options.journal)
    started = time.monotonic()
    summary = HistoriesSummary()
    seeds = range(options.seed, options.seed + options.histories)
    for part in _play_in_parallel(seeds, options.journal, options.workers):
        summary.merge(part)
        for history in part.failed:
            _print(
                f"{history}\n  run it again with: python -m anygpu.testing.simulate --replay {history.seed}"
            )
    _print_summary(summary, time.monotonic() - started)
    return 1 if summary.failed else 0


def _play_in_parallel(seeds: range, store: Store, workers: int) -> Iterator[HistoriesSummary]:
    """Simulate the seeds in `workers` processes. Yield a summary for each chunk of seeds."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(play_seeds, chunks, [store] * len(chunks))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m anygpu.testing.simulate", description=__doc__)
    parser.add_argument("--histories", type=int, default=1000, help="number of histories (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first history (default: 0)")
    parser.add_argument("--journal", choices=("memory", "sql"), default="memory")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    parser.add_argument(
        "--replay", type=int, metavar="SEED", help="run one history again and print each event"
    )
    return parser.parse_args(arguments)


def _replay(seed: int, store: Store) -> int:
    history = play(scenario_for_seed(seed), store)
    for line in history.trace:
        _print(line)
    _print(str(history))
    return 1 if history.failed else 0


def _print_summary(summary: HistoriesSummary, took_s: float) -> None:
    for fault in Fault:
        _print(f"{summary.faults[fault]:8d}  {fault}")
    _print(f"{summary.preemptions:8d}  preempted for another job")
    _print(f"{summary.migrations:8d}  migrated to a cheaper or better offer")
    each_ms = took_s / max(1, summary.histories) * 1000
    _print(
        f"{summary.histories} histories, {len(summary.failed)} failed; {took_s:.1f} s, {each_ms:.1f} ms per history"
    )


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
