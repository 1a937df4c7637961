"""How long spot machines last, learnt from what was seen so far. No clock: one look a tick.

The older a run of availability is, the longer it goes on: that is so in every published trace, and it is all that
is assumed before anything was seen (an instant of age t ends with probability 1 / (1 + t)).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

OLDEST = (1, 2, 4, 8, 16, 32, 64)  # ticks: the last age of each band; the last band has no end
MIDDLE = (1.0, 2.0, 3.5, 6.5, 12.5, 24.5, 48.5)
BELIEF = 2.0  # the assumption weighs as much as this many looks at a band
ASSUMED_S, ASSUMED_STARTS = 4 * 3600.0, 1.0  # spot comes back once in four hours, until seen otherwise


def _none() -> tuple[int, ...]:
    return (0,) * len(OLDEST)


def band(age: int) -> int:
    return next((place for place, oldest in enumerate(OLDEST) if age <= oldest), len(OLDEST) - 1)


def _one_more(counts: tuple[int, ...], place: int) -> tuple[int, ...]:
    return (*counts[:place], counts[place] + 1, *counts[place + 1 :])


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone: for how many ticks it has been available, and at what ages earlier runs went on or ended."""

    age: int = 0
    looks: tuple[int, ...] = field(default_factory=_none)
    ends: tuple[int, ...] = field(default_factory=_none)

    def seen(self, available: bool) -> Zone:
        if not self.age:
            return replace(self, age=int(available))
        place = band(self.age)
        looks = _one_more(self.looks, place)
        if available:
            return Zone(self.age + 1, looks, self.ends)
        return Zone(0, looks, _one_more(self.ends, place))

    def hazard(self, place: int) -> float:
        """The probability that a run of this band's age ends within a tick."""
        assumed = BELIEF / (1 + MIDDLE[place])
        return (self.ends[place] + assumed) / (self.looks[place] + BELIEF)

    def ticks_to_come(self) -> float:
        """How many more ticks the present run is expected to last, this one included."""
        if not self.age:
            return 0.0
        now, last = band(self.age), len(OLDEST) - 1
        rest = 1 / self.hazard(last) - 1
        for place in range(last - 1, now - 1, -1):
            youngest = self.age if place == now else OLDEST[place - 1] + 1
            rest = _lasting(rest, self.hazard(place), OLDEST[place] - youngest + 1)
        return 1 + rest


def _lasting(rest: float, hazard: float, ticks: int) -> float:
    """Expected ticks when each of the next `ticks` may be the last, and `rest` follow if none was."""
    stays = 1 - hazard
    through = stays**ticks
    return stays * (1 - through) / hazard + through * rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """All zones, and how often spot came back after there was none at all."""

    tick_s: float
    zones: dict[str, Zone]
    ticks: int = 0
    returns: int = 0
    calm: bool = False  # something was available at the last look

    @classmethod
    def unknown(cls, zones: Iterable[str], tick_s: float) -> Weather:
        return cls(tick_s=tick_s, zones={name: Zone() for name in zones}, calm=True)

    def seen(self, available: Collection[str]) -> Weather:
        """The weather after one more look, a tick after the last."""
        return Weather(
            tick_s=self.tick_s,
            zones={name: zone.seen(name in available) for name, zone in self.zones.items()},
            ticks=self.ticks + 1,
            returns=self.returns + (bool(available) and not self.calm),
            calm=bool(available),
        )

    def lasts_s(self, zone: str) -> float:
        """How long the zone is expected to stay available."""
        return self.zones[zone].ticks_to_come() * self.tick_s

    @property
    def returns_per_s(self) -> float:
        return (self.returns + ASSUMED_STARTS) / (self.ticks * self.tick_s + ASSUMED_S)
