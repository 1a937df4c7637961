"""Spot capacity and spot prices: capacity from trace files or random, prices random or constant."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anygpu.cloudsim.vendor import SimMachineType

GAP_S = 600
SEEDED_TICKS = 4032  # four weeks of ten-minute ticks
STAYS_UP, STAYS_DOWN = 0.93, 0.85  # probability that availability, or its absence, continues for another tick


@dataclass(frozen=True, slots=True)
class CapacityTrace:
    """Whether spot capacity is available in each interval of `gap_s` seconds (tick).

    After the last tick, the trace starts again.
    """

    gap_s: float
    ticks: tuple[bool, ...]

    def at(self, elapsed_s: float) -> bool:
        return self.ticks[int(elapsed_s // self.gap_s) % len(self.ticks)]


ALWAYS_AVAILABLE = CapacityTrace(GAP_S, (True,))


def read_trace(path: Path) -> CapacityTrace:
    """Read a trace file: `{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}`, where 1 means available."""
    try:
        content = json.loads(path.read_text())
        trace = CapacityTrace(
            float(content["metadata"]["gap_seconds"]), tuple(bool(tick) for tick in content["data"])
        )
    except (KeyError, TypeError, ValueError) as error:
        shape = '{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}'
        raise ValueError(
            f"{path} is not a recording of spot availability ({error!r}). Write it in the format {shape}."
        ) from error
    if not trace.ticks or trace.gap_s <= 0:
        raise ValueError(
            f"{path} is not a recording of spot availability: `data` must not be empty, and `gap_seconds` "
            "must be above zero."
        )
    return trace


def random_trace(seed: str) -> CapacityTrace:
    """Return a random trace from a seed. Available and unavailable periods last several ticks on average."""
    rng = random.Random(seed)

    def ticks() -> Iterator[bool]:
        up = True
        for _ in range(SEEDED_TICKS):
            yield up
            up = rng.random() < STAYS_UP if up else rng.random() >= STAYS_DOWN

    return CapacityTrace(GAP_S, tuple(ticks()))


class SimSpotMarket:
    """Spot capacity and prices.

    Time in the market passes `speed` times as fast as by the simulator's clock.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        traces: Sequence[CapacityTrace] = (),
        speed: float = 1,
        start_s: float = 0,
    ) -> None:
        self._seed = seed
        self._traces = tuple(traces)
        self._generated: dict[tuple[str, str], CapacityTrace] = {}
        self.speed = speed
        self._start_s = start_s

    def is_available(self, machine_type: SimMachineType, zone: str, now_s: float) -> bool:
        """Return whether spot capacity of this type is available in the zone."""
        return self._trace_for(machine_type.name, zone).at(self._elapsed_s(now_s))

    def spot_price(self, machine_type: SimMachineType, zone: str, now_s: float) -> int:
        """Return the spot price in micro-dollars per hour.

        With a seed, the price is set for each hour of market time at random, within 10 % of the base price.
        Without a seed it is constant.
        """
        base = machine_type.spot_microusd_per_hour or machine_type.price_microusd_per_hour
        if self._seed is None:
            return base
        hour = int(self._elapsed_s(now_s) // 3600)
        return round(
            base * random.Random(f"{self._seed}:{machine_type.name}:{zone}:{hour}").uniform(0.9, 1.1)
        )

    def next_change_s(self, now_s: float) -> float | None:
        """Return when capacity may change next, by the simulator's clock; None if capacity never changes."""
        gaps = [trace.gap_s for trace in self._active_traces() if len(set(trace.ticks)) > 1]
        if not gaps:
            return None
        elapsed_s = self._elapsed_s(now_s)
        return min(self._start_s + (int(elapsed_s // gap_s) + 1) * gap_s / self.speed for gap_s in gaps)

    def _active_traces(self) -> list[CapacityTrace]:
        return [*self._traces, *self._generated.values()]

    def _elapsed_s(self, now_s: float) -> float:
        # 1e-6 is added so that a timer set for a tick does not see the time just before it.
        return max(0.0, now_s - self._start_s) * self.speed + 1e-6

    def _trace_for(self, machine_type: str, zone: str) -> CapacityTrace:
        if self._seed is None and not self._traces:
            return ALWAYS_AVAILABLE
        if (machine_type, zone) not in self._generated:
            self._generated[machine_type, zone] = self._new_trace(machine_type, zone)
        return self._generated[machine_type, zone]

    def _new_trace(self, machine_type: str, zone: str) -> CapacityTrace:
        """Return a trace for a machine type in a zone: one of the given traces, or a generated one."""
        if self._traces:
            return random.Random(f"{self._seed}:{machine_type}:{zone}").choice(self._traces)
        return random_trace(f"{self._seed}:{machine_type}:{zone}")
