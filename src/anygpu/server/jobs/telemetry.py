"""Turn the telemetry samples of an attempt into one series per measured value, for charts.

Samples come from machines that are not trusted. Whatever has not the expected form is left out.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from anygpu.bounds import is_time
from anygpu.store.sampling import downsample_indices

MAX_GPUS = 64
MAX_LABEL_LENGTH = 100


class Reading(NamedTuple):
    """One value of a sample. `limit` is the size of the memory or disk."""

    name: str
    unit: str
    value: object
    limit: object = None
    label: str = ""


@dataclass(slots=True)
class _Series:
    unit: str
    label: str = ""
    limit: float | None = None
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def to_json(self, name: str, max_count: int) -> dict[str, Any]:
        chosen = downsample_indices(self.values, max_count)
        points = [(self.times[index], self.values[index]) for index in chosen]
        return {"name": name, "label": self.label, "unit": self.unit, "limit": self.limit, "points": points}


def telemetry_series(samples: Iterable[Mapping[str, Any]], *, max_count: int) -> list[dict[str, Any]]:
    """Return the series of an attempt as `TelemetrySeries`, each with at most `max_count` points and its extremes."""
    series: dict[str, _Series] = {}
    for at, sample in _samples_in_order(samples):
        for reading in _readings(sample):
            value = _number(reading.value)
            if value is not None:
                its = series.setdefault(reading.name, _Series(reading.unit))
                its.times.append(at)
                its.values.append(value)
                its.label, its.limit = reading.label, _number(reading.limit)
    return [its.to_json(name, max_count) for name, its in series.items()]


def _samples_in_order(samples: Iterable[Mapping[str, Any]]) -> Sequence[tuple[float, Mapping[str, Any]]]:
    """Return the samples with their times. A machine's clock can be set back, so they are sorted by time."""
    timed = [(float(sample["at"]), sample) for sample in samples if is_time(sample.get("at"))]
    return sorted(timed, key=lambda pair: pair[0])


def _readings(sample: Mapping[str, Any]) -> Iterator[Reading]:
    gpus = sample.get("gpus")
    for index, gpu in enumerate(gpus[:MAX_GPUS] if isinstance(gpus, list) else ()):
        yield from _gpu_readings(index, _mapping(gpu))
    yield Reading("cpu.utilisation", "fraction", sample.get("cpu"))
    for device in ("memory", "disk"):
        usage = _mapping(sample.get(device))
        yield Reading(f"{device}.used", "bytes", usage.get("used"), usage.get("total"))
    network = _mapping(sample.get("net"))
    for direction in ("received", "sent"):
        yield Reading(f"network.{direction}", "bytes_per_s", network.get(direction))


def _gpu_readings(position: int, gpu: Mapping[str, Any]) -> Iterator[Reading]:
    reported = gpu.get("index")
    index = reported if type(reported) is int and 0 <= reported < MAX_GPUS else position
    label = str(gpu.get("name") or "")[:MAX_LABEL_LENGTH]
    prefix = f"gpu{index}"
    yield Reading(f"{prefix}.utilisation", "fraction", gpu.get("use"), None, label)
    used, total = gpu.get("memory_used"), gpu.get("memory_total")
    yield Reading(f"{prefix}.memory_used", "bytes", used, total, label)
    yield Reading(f"{prefix}.temperature", "celsius", gpu.get("temperature_c"), None, label)
    yield Reading(f"{prefix}.power", "watts", gpu.get("power_w"), None, label)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> float | None:
    """Return a finite number as a float; None for everything else."""
    if type(value) is int:
        return float(value) if -(2**63) < value < 2**63 else None
    return value if type(value) is float and math.isfinite(value) else None
