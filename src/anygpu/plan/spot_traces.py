"""Recorded spot availability: reading it, making it up, cutting windows out of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.errors import BadTrace


@dataclass(frozen=True, slots=True)
class Trace:
    """One zone: 1 where it had spot, tick by tick."""

    zone: str
    tick_s: float
    available: Sequence[int]


@dataclass(frozen=True, slots=True)
class Window:
    """The same stretch of time in one or several zones."""

    tick_s: float
    available: Mapping[str, Sequence[int]]


def read_trace(path: Path) -> Trace:
    """`{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}`; the file's name is the zone's."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        tick_s = float(document["metadata"]["gap_seconds"])
        available = [_bit(value) for value in document["data"]]
    except OSError as error:
        raise BadTrace(f"{path} cannot be read: {error.strerror}.", hint="Check the path.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadTrace(
            f"{path} is not a record of spot availability ({type(error).__name__}: {error}).",
            hint='Expected {"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}.',
        ) from error
    if tick_s <= 0 or not available:
        raise BadTrace(f"{path} has no ticks, or ticks of {tick_s:g} s.", hint="Record it again.")
    return Trace(path.stem, tick_s, available)


def _bit(value: Any) -> int:
    if value not in (0, 1):
        raise ValueError(f"{value!r} is neither 0 nor 1")
    return int(value)


def read_traces(place: Path) -> list[Trace]:
    """Every trace of a folder, or the one file."""
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files:
        raise BadTrace(f"There is no .json file in {place}.", hint="Name a folder of traces, or one trace.")
    return [read_trace(path) for path in files]


def cut(traces: Sequence[Trace], *, zones: int, length_s: float, count: int, seed: int) -> Iterator[Window]:
    """Random windows: the traces in turn, each with others of the same tick that are drawn."""
    chance = random.Random(seed)  # noqa: S311
    able = [trace for trace in traces if len(trace.available) * trace.tick_s >= length_s]
    able = [trace for trace in able if len(_beside(trace, able)) >= zones - 1]
    if not able:
        raise BadTrace(
            f"No {zones} of the traces have the same ticks and last {length_s / 3600:g} h.",
            hint="Give longer traces, more of them, or an earlier deadline.",
        )
    for number in range(count):
        first = able[number % len(able)]
        yield _window([first, *chance.sample(_beside(first, able), zones - 1)], length_s, chance)


def _beside(trace: Trace, traces: Sequence[Trace]) -> list[Trace]:
    return [other for other in traces if other is not trace and other.tick_s == trace.tick_s]


def _window(drawn: Sequence[Trace], length_s: float, chance: random.Random) -> Window:
    tick_s = drawn[0].tick_s
    ticks = int(length_s // tick_s)
    start = chance.randint(0, min(len(trace.available) for trace in drawn) - ticks)
    return Window(tick_s, {trace.zone: trace.available[start : start + ticks] for trace in drawn})


# Mean ticks with spot and without, of the moods a zone of each kind has.
MOODS: dict[str, tuple[tuple[float, float], ...]] = {
    "scarce": ((2, 40), (12, 60)),
    "flapping": ((1.5, 2), (3, 1.5), (1.2, 4)),
    "bursty": ((1.5, 2), (80, 10), (10, 150)),
    "plenty": ((100, 2), (30, 5)),
    "balanced": ((30, 30), (8, 8)),
}


def made_up(kind: str, seed: int, *, ticks: int = 4000, tick_s: float = 600.0) -> Trace:
    """A zone of a kind: its mood lasts for hours or days, its runs and gaps are exponential."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311
    available: list[int] = []
    while len(available) < ticks:
        on, off = chance.choice(MOODS[kind])
        until = len(available) + chance.randint(50, 400)
        while len(available) < until:
            available += [1] * max(1, round(chance.expovariate(1 / on)))
            available += [0] * max(1, round(chance.expovariate(1 / off)))
    return Trace(f"{kind}-{seed}", tick_s, available[:ticks])
