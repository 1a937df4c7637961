"""Whether a machine can be had, and at what price: from a trace, from a seed, or always."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anygpu.cloudsim.vendor import MachineType

GAP_S = 600
SEEDED_TICKS = 4032  # four weeks of ten minutes
STAYS_UP, STAYS_DOWN = 0.93, 0.85  # chances per tick


@dataclass(frozen=True, slots=True)
class CapacityTrace:
    """Availability in ticks of `gap_s`; the last tick is followed by the first again."""

    gap_s: float
    ticks: tuple[bool, ...]

    def at(self, elapsed_s: float) -> bool:
        return self.ticks[int(elapsed_s // self.gap_s) % len(self.ticks)]


ALWAYS_AVAILABLE = CapacityTrace(GAP_S, (True,))


def read_trace(path: Path) -> CapacityTrace:
    """A file `{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}`; 1 means available."""
    try:
        content = json.loads(path.read_text())
        trace = CapacityTrace(
            float(content["metadata"]["gap_seconds"]), tuple(bool(tick) for tick in content["data"])
        )
    except (KeyError, TypeError, ValueError) as error:
        shape = '{"metadata": {"gap_seconds": 600}, "data": [1, 0, …]}'
        raise ValueError(f"{path} is no availability trace ({error!r}). Its shape is {shape}.") from error
    if not trace.ticks or trace.gap_s <= 0:
        raise ValueError(f"{path} has no ticks, or a gap that is not positive.")
    return trace


def random_trace(seed: str) -> CapacityTrace:
    """Ups and downs that last, as those of real spot machines do."""
    rng = random.Random(seed)

    def ticks() -> Iterator[bool]:
        up = True
        for _ in range(SEEDED_TICKS):
            yield up
            up = rng.random() < STAYS_UP if up else rng.random() >= STAYS_DOWN

    return CapacityTrace(GAP_S, tuple(ticks()))


class SimSpotMarket:
    """Spot capacity and prices over time. Market time runs `speed` times as fast as the simulator's clock."""

    def __init__(
        self,
        *,
        seed: int | None = None,
        traces: Sequence[CapacityTrace] = (),
        named: Mapping[str, CapacityTrace] | None = None,
        speed: float = 1,
        start_s: float = 0,
    ) -> None:
        self._seed = seed
        self._traces = tuple(traces)
        self._named = dict(named or {})  # by instance type or zone
        self._generated: dict[tuple[str, str], CapacityTrace] = {}
        self.speed = speed
        self._start_s = start_s

    def is_available(self, machine_type: MachineType, zone: str, now_s: float) -> bool:
        """Whether spot machines of this kind can be had, and kept, in the zone."""
        return self._trace_for(machine_type.name, zone).at(self._elapsed_s(now_s))

    def spot_price(self, machine_type: MachineType, zone: str, now_s: float) -> int:
        """With a seed it moves by up to a tenth each market hour; without one it stands."""
        base = machine_type.spot_microusd_per_hour or machine_type.price_microusd_per_hour
        if self._seed is None:
            return base
        hour = int(self._elapsed_s(now_s) // 3600)
        return round(
            base * random.Random(f"{self._seed}:{machine_type.name}:{zone}:{hour}").uniform(0.9, 1.1)
        )

    def next_change_s(self, now_s: float) -> float | None:
        """When capacity may change next, by the simulator's clock; None when it never does."""
        gaps = [trace.gap_s for trace in self._active_traces() if len(set(trace.ticks)) > 1]
        if not gaps:
            return None
        elapsed_s = self._elapsed_s(now_s)
        return min(self._start_s + (int(elapsed_s // gap_s) + 1) * gap_s / self.speed for gap_s in gaps)

    def _active_traces(self) -> list[CapacityTrace]:
        return [*self._traces, *self._named.values(), *self._generated.values()]

    def _elapsed_s(self, now_s: float) -> float:
        # Ticks are scheduled by division; without the allowance a timer would look just before its own tick.
        return max(0.0, now_s - self._start_s) * self.speed + 1e-6

    def _trace_for(self, machine_type: str, zone: str) -> CapacityTrace:
        for name in (f"{machine_type}@{zone}", machine_type, zone):
            if name in self._named:
                return self._named[name]
        if self._seed is None and not self._traces:
            return ALWAYS_AVAILABLE
        if (machine_type, zone) not in self._generated:
            self._generated[machine_type, zone] = self._new_trace(machine_type, zone)
        return self._generated[machine_type, zone]

    def _new_trace(self, machine_type: str, zone: str) -> CapacityTrace:
        """Several traces are dealt to the pools by name, so that the same pool always gets the same one."""
        if self._traces:
            return random.Random(f"{self._seed}:{machine_type}:{zone}").choice(self._traces)
        return random_trace(f"{self._seed}:{machine_type}:{zone}")
