"""How long spot machines last, learnt from what was seen lately. No clock: one look a tick.

The older a run of availability is, the longer it goes on, and a zone that has lost many machines loses more: before
anything was seen, a run of age t is assumed to end with probability 1.5 / (2 + t).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

OLDEST = (1, 2, 4, 8, 16, 32, 64)  # ticks: the last age of each band; the last band has no end
ASSUMED = tuple(1.5 / (2 + age) for age in (1.0, 2.0, 3.5, 6.5, 12.5, 24.5, 48.5))  # at the middle of each
BELIEF = 10.0  # what a zone's temper says of a band weighs as much as this many looks at it
CALM_ENDS = 1.0  # and that its temper is as assumed, as much as this many ends
CERTAIN = 0.95  # no run is given up more surely than this
FOUND = 4  # ticks: the age of what is there at the first look; it has hardly just begun
HALF_LIFE_S = 6 * 3600.0  # what was seen so long ago counts half: zones have moods
ASSUMED_S, ASSUMED_STARTS = 4 * 3600.0, 1.0  # spot comes back once in four hours, until seen otherwise

Counts = tuple[float, ...]


def _none() -> Counts:
    return (0.0,) * len(OLDEST)


def band(age: int) -> int:
    return next((place for place, oldest in enumerate(OLDEST) if age <= oldest), len(OLDEST) - 1)


def _one_more(counts: Counts, place: int) -> Counts:
    return (*counts[:place], counts[place] + 1, *counts[place + 1 :])


@dataclass(frozen=True, slots=True)
class Zone:
    """One zone: for how many ticks it has been available, and at what ages earlier runs went on or ended."""

    age: int = 0
    looks: Counts = field(default_factory=_none)
    ends: Counts = field(default_factory=_none)

    def seen(self, available: bool, kept: float = 1.0) -> Zone:
        """The zone after one more look; of what was counted before, `kept` still counts."""
        looks, ends = tuple(n * kept for n in self.looks), tuple(n * kept for n in self.ends)
        if not self.age:
            return Zone(int(available), looks, ends)
        place = band(self.age)
        looks = _one_more(looks, place)
        return Zone(self.age + 1, looks, ends) if available else Zone(0, looks, _one_more(ends, place))

    def hazards(self) -> Counts:
        """For each band, the probability that a run of that age ends within a tick."""
        expected = sum(looks * assumed for looks, assumed in zip(self.looks, ASSUMED, strict=True))
        temper = (sum(self.ends) + CALM_ENDS) / (expected + CALM_ENDS)
        return tuple(
            min(CERTAIN, (ends + BELIEF * min(CERTAIN, temper * assumed)) / (looks + BELIEF))
            for looks, ends, assumed in zip(self.looks, self.ends, ASSUMED, strict=True)
        )

    def ticks_to_come(self) -> float:
        """How many more ticks the present run is expected to last, this one included."""
        if not self.age:
            return 0.0
        hazards = self.hazards()
        now, last = band(self.age), len(OLDEST) - 1
        rest = 1 / hazards[last] - 1
        for place in range(last - 1, now - 1, -1):
            youngest = self.age if place == now else OLDEST[place - 1] + 1
            rest = _lasting(rest, hazards[place], OLDEST[place] - youngest + 1)
        return 1 + rest


def _lasting(rest: float, hazard: float, ticks: int) -> float:
    """Expected ticks when each of the next `ticks` may be the last, and `rest` follow if none was."""
    stays = 1 - hazard
    through = stays**ticks
    return stays * (1 - through) / hazard + through * rest


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """All zones, and how often spot came back after there was none at all. What is long ago has faded."""

    tick_s: float
    zones: dict[str, Zone]
    ticks: float = 0.0
    returns: float = 0.0
    calm: bool = False  # something was available at the last look

    @classmethod
    def unknown(cls, zones: Iterable[str], tick_s: float) -> Weather:
        return cls(tick_s=tick_s, zones={name: Zone() for name in zones}, calm=True)

    def seen(self, available: Collection[str]) -> Weather:
        """The weather after one more look, a tick after the last."""
        kept = 0.5 ** (self.tick_s / HALF_LIFE_S)
        if self.ticks:
            zones = {name: zone.seen(name in available, kept) for name, zone in self.zones.items()}
        else:
            zones = {name: Zone(FOUND if name in available else 0) for name in self.zones}
        return Weather(
            tick_s=self.tick_s,
            zones=zones,
            ticks=self.ticks * kept + 1,
            returns=self.returns * kept + (bool(available) and not self.calm),
            calm=bool(available),
        )

    def lasts_s(self, zone: str) -> float:
        """How long the zone is expected to stay available."""
        return self.zones[zone].ticks_to_come() * self.tick_s

    @property
    def returns_per_s(self) -> float:
        return (self.returns + ASSUMED_STARTS) / (self.ticks * self.tick_s + ASSUMED_S)
