"""Simulate spot policies on traces: recorded or synthetic spot availability of zones over time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.errors import BadTrace
from anygpu.plan.spot.availability import SpotAvailability
from anygpu.plan.spot.policy import (
    ON_DEMAND,
    WAIT,
    MachineChoice,
    SpotDecision,
    SpotJob,
    SpotPolicy,
    TickState,
    choose_machine,
    enforce_deadline,
    is_safe,
    slack_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """The cost, end time and number of restarts of a job that was simulated on a trace."""

    cost_usd: float
    finished_s: float
    restarts: int
    late: bool


@dataclass(slots=True)
class _Run:
    """The state of a job during a replay."""

    job: SpotJob
    work_left_s: float
    running: MachineChoice = WAIT
    starting_s: float = 0.0
    cost_usd: float = 0.0
    restarts: int = 0

    def lose(self) -> None:
        self.running, self.starting_s = WAIT, 0.0

    def switch_to(self, choice: MachineChoice) -> None:
        if choice != self.running:
            self.restarts += choice != WAIT
            self.starting_s = 0.0 if choice == WAIT else self.job.restart_s
        self.running = choice

    def advance(self, tick_s: float) -> float:
        """Simulate at most one tick (time between two decisions), and return the seconds that were used."""
        needed_s = self.starting_s + self.work_left_s
        used_s = tick_s if self.running == WAIT else min(tick_s, needed_s)
        self.cost_usd += self.job.price_usd_per_hour(self.running) * used_s / 3600
        if self.running != WAIT:
            self.work_left_s -= max(0.0, used_s - self.starting_s)
            self.starting_s = max(0.0, self.starting_s - used_s)
        return used_s


def replay(
    job: SpotJob,
    availability: Mapping[str, Sequence[int]],
    tick_s: float,
    policy: SpotPolicy,
) -> ReplayOutcome:
    """Simulate a job under a policy. If the trace ends first, the job continues on an on-demand machine."""
    run = _Run(job, job.work_s)
    availability_model = SpotAvailability.initial(availability, tick_s)
    now_s = 0.0
    for tick in range(min(map(len, availability.values()), default=0)):
        available = tuple(zone for zone, zone_available in availability.items() if zone_available[tick])
        availability_model = availability_model.observe(available)
        if run.running.kind == "spot" and run.running.zone not in available:
            run.lose()
        moment = TickState(
            now_s=now_s,
            work_left_s=run.work_left_s,
            available=available,
            running=run.running,
            starting_s=run.starting_s,
            tick_s=tick_s,
        )
        run.switch_to(policy(job, moment, availability_model).choice)
        now_s += run.advance(tick_s)
        if run.work_left_s <= 0:
            return _outcome(run, now_s)
    run.switch_to(ON_DEMAND)
    return _outcome(run, now_s + run.advance(float("inf")))


def _outcome(run: _Run, finished_s: float) -> ReplayOutcome:
    late = finished_s > run.job.deadline_s + 1e-3
    return ReplayOutcome(cost_usd=run.cost_usd, finished_s=finished_s, restarts=run.restarts, late=late)


@dataclass(frozen=True, slots=True)
class SpotTrace:
    """The spot availability of one zone at each tick: 1 if the zone has spot machines, else 0."""

    zone: str
    tick_s: float
    available: Sequence[int]


@dataclass(frozen=True, slots=True)
class TraceWindow:
    """The same period of one or several traces, by zone."""

    tick_s: float
    available: Mapping[str, Sequence[int]]


def read_trace(path: Path) -> SpotTrace:
    """Read a trace file like `{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}`.

    The name of the file without its extension is the name of the zone.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        tick_s = float(document["metadata"]["gap_seconds"])
        available = [_bit(value) for value in document["data"]]
    except OSError as error:
        raise BadTrace(
            f"{path} cannot be read: {error.strerror}.",
            hint="Check the path and the permissions of the file.",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadTrace(
            f"{path} is not a recording of spot availability ({type(error).__name__}: {error}).",
            hint='Write it as {"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}.',
        ) from error
    if tick_s <= 0 or not available:
        raise BadTrace(
            f"{path} is not a usable recording: `data` is empty, or `gap_seconds` ({tick_s:g}) is not above "
            "zero.",
            hint="Correct the file, or give another one.",
        )
    return SpotTrace(path.stem, tick_s, available)


def _bit(value: Any) -> int:
    if value not in (0, 1):
        raise ValueError(f"`data` contains {value!r}, which is neither 0 nor 1")
    return int(value)


def read_traces(place: Path) -> list[SpotTrace]:
    """Read one trace file, or all .json files of a folder."""
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files:
        raise BadTrace(
            f"The folder {place} contains no .json file.",
            hint="Give a recording of spot availability, or a folder of them.",
        )
    return [read_trace(path) for path in files]


def sample_windows(
    traces: Sequence[SpotTrace], *, zones: int, length_s: float, count: int, seed: int
) -> Iterator[TraceWindow]:
    """Yield `count` windows (periods) of `length_s` seconds from random times, each with the traces of `zones` zones.

    The traces take turns as the first zone of a window. The other zones are random traces with equally long ticks.
    """
    rng = random.Random(seed)  # noqa: S311
    usable = [trace for trace in traces if len(trace.available) * trace.tick_s >= length_s]
    usable = [trace for trace in usable if len(_with_same_tick(trace, usable)) >= zones - 1]
    if not usable:
        raise BadTrace(
            f"The simulation needs {zones} recordings of at least {length_s / 3600:g} h with the same "
            "gap_seconds, and there are fewer.",
            hint="Give longer or more recordings (--trace), fewer --zones, or an earlier --deadline.",
        )
    for number in range(count):
        first = usable[number % len(usable)]
        yield _window([first, *rng.sample(_with_same_tick(first, usable), zones - 1)], length_s, rng)


def _with_same_tick(trace: SpotTrace, traces: Sequence[SpotTrace]) -> list[SpotTrace]:
    return [other for other in traces if other is not trace and other.tick_s == trace.tick_s]


def _window(chosen: Sequence[SpotTrace], length_s: float, rng: random.Random) -> TraceWindow:
    tick_s = chosen[0].tick_s
    ticks = int(length_s // tick_s)
    start = rng.randint(0, min(len(trace.available) for trace in chosen) - ticks)
    return TraceWindow(tick_s, {trace.zone: trace.available[start : start + ticks] for trace in chosen})


# For each kind of zone: mean ticks with and without spot in each of its regimes.
SYNTHETIC_ZONES: dict[str, tuple[tuple[float, float], ...]] = {
    "scarce": ((2, 40), (12, 60)),
    "flapping": ((1.5, 2), (3, 1.5), (1.2, 4)),
    "bursty": ((1.5, 2), (80, 10), (10, 150)),
    "plenty": ((100, 2), (30, 5)),
    "balanced": ((30, 30), (8, 8)),
}


def synthetic_trace(kind: str, seed: int, *, ticks: int = 4000, tick_s: float = 600.0) -> SpotTrace:
    """Return a random trace.

    Periods with and without spot have random lengths, whose means change over time.
    """
    rng = random.Random(f"{kind} {seed}")  # noqa: S311
    available: list[int] = []
    while len(available) < ticks:
        on, off = rng.choice(SYNTHETIC_ZONES[kind])
        until = len(available) + rng.randint(50, 400)
        while len(available) < until:
            available += [1] * max(1, round(rng.expovariate(1 / on)))
            available += [0] * max(1, round(rng.expovariate(1 / off)))
    return SpotTrace(f"{kind}-{seed}", tick_s, available[:ticks])


def on_demand_only(job: SpotJob, state: TickState, availability: SpotAvailability) -> SpotDecision:
    return SpotDecision(ON_DEMAND, "this policy uses on-demand only")


def greedy(job: SpotJob, state: TickState, availability: SpotAvailability) -> SpotDecision:
    """Use spot if any zone has it, else wait. Once the deadline requires on-demand, stay on it to the end."""
    if state.running == ON_DEMAND:
        return SpotDecision(ON_DEMAND, "stays on on-demand to the end")
    if state.running.kind == "spot":
        return enforce_deadline(job, state, SpotDecision(state.running, "stays on spot until interrupted"))
    preferred = SpotDecision(_first_zone(state), "uses spot if a zone has it, else waits")
    return enforce_deadline(
        job,
        state,
        preferred if is_safe(job, state, preferred.choice) else SpotDecision(WAIT, "too late to start spot"),
    )


def uniform_progress(job: SpotJob, state: TickState, availability: SpotAvailability) -> SpotDecision:
    """Keep the job's progress proportional to the elapsed time (Wu et al., NSDI 2024).

    Leave an on-demand machine only when the job is ahead by the time of two restarts.
    """
    if state.running.kind == "spot":
        return enforce_deadline(job, state, SpotDecision(state.running, "stays on spot until interrupted"))
    if state.running == ON_DEMAND:
        return _leave_on_demand(job, state)
    if slack_s(job, state) < job.restart_s + state.tick_s:
        return SpotDecision(ON_DEMAND, "safety net")
    if state.available:
        return enforce_deadline(job, state, SpotDecision(_first_zone(state), "a zone has spot"))
    return SpotDecision(
        ON_DEMAND if _ahead_s(job, state, state.now_s) < 0 else WAIT, "waits while ahead of uniform progress"
    )


def _leave_on_demand(job: SpotJob, state: TickState) -> SpotDecision:
    if _ahead_s(job, state, state.now_s + 2 * job.restart_s) < 0:
        return SpotDecision(ON_DEMAND, "not ahead by two restarts")
    preferred = SpotDecision(_first_zone(state), "ahead by two restarts")
    if preferred.choice == WAIT and slack_s(job, state) < job.restart_s + state.tick_s:
        return SpotDecision(ON_DEMAND, "safety net")
    return enforce_deadline(job, state, preferred)


def _ahead_s(job: SpotJob, state: TickState, when_s: float) -> float:
    return job.work_s - state.work_left_s - job.work_s * when_s / job.deadline_s


def _first_zone(state: TickState) -> MachineChoice:
    return MachineChoice("spot", state.available[0]) if state.available else WAIT


POLICIES: dict[str, SpotPolicy] = {
    "on-demand": on_demand_only,
    "greedy": greedy,
    "uniform-progress": uniform_progress,
    "anygpu": choose_machine,
}
