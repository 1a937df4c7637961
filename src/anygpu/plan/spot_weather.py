"""How long spot lasts and how soon it comes back, learnt from what was seen lately. No clock: one look a tick.

Zones have moods: one that lost machines lately loses more of any age, one that kept them goes on keeping them.
Beside that the young go sooner than the old: before anything was seen, a spell of t ticks is assumed to end with
probability 0.2 / √t.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import sqrt

YOUNGEST = 0.2  # how likely a spell of one tick is to end
DOUBT = 0.5  # ends: so little does the assumption weigh against what was seen
CERTAIN = 0.95  # nothing is given up more surely than this
HOPELESS = 0.001  # what is less likely adds nothing that counts
FOUND = 4  # ticks: the age of what is there at the first look; it has hardly just begun
HALF_LIFE_S = 8 * 3600.0  # what was seen so long ago counts half: moods change
ASSUMED_S, ASSUMED_STARTS = 4 * 3600.0, 1.0  # spot comes back once in four hours, until seen otherwise


def assumed(age: float) -> float:
    return YOUNGEST / sqrt(age)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be expected of a spell within a time: how many ticks of it, and the chance of all of them."""

    ticks: float
    through: float


@dataclass(frozen=True, slots=True)
class Spell:
    """Spot in a zone, or none anywhere: its age in ticks; how many such spells should have ended, and how many did."""

    age: int = 0
    due: float = 0.0
    ends: float = 0.0

    def seen(self, goes_on: bool, kept: float = 1.0) -> Spell:
        """The spell after one more look; of what was counted before, `kept` still counts."""
        due, ends = self.due * kept, self.ends * kept
        if not self.age:
            return Spell(int(goes_on), due, ends)
        due += assumed(self.age)
        return Spell(self.age + 1, due, ends) if goes_on else Spell(0, due, ends + 1)

    @property
    def hazard(self) -> float:
        """The probability that it ends within a tick."""
        return min(CERTAIN, (self.ends + DOUBT) / (self.due + DOUBT) * assumed(max(1, self.age)))

    def outlook(self, most: float) -> Outlook:
        """For the next `most` ticks, this one included. The longer it lasts the better its mood turns out to be."""
        if not self.age:
            return Outlook(0.0, 0.0)
        ahead, ends, due, ticks, through = 0.0, self.ends + DOUBT, self.due + DOUBT, 0.0, 1.0
        while ahead < most and through > HOPELESS:
            step = min(max(1.0, ahead // 3), most - ahead)
            middle = max(0.0, (step - 1) / 2)
            likely = assumed(self.age + ahead + middle)
            hazard = min(CERTAIN, ends / (due + likely * middle) * likely)
            stays = (1 - hazard) ** step
            ticks += through * min(step, (1 - stays) / hazard)
            ahead, due, through = ahead + step, due + likely * step, through * stays
        return Outlook(ticks, through)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Spot in each zone, and the times without any. What is long ago has faded."""

    tick_s: float
    zones: dict[str, Spell]
    drought: Spell = field(default_factory=Spell)
    ticks: float = 0.0

    @classmethod
    def unknown(cls, zones: Iterable[str], tick_s: float) -> Weather:
        return cls(tick_s=tick_s, zones={name: Spell() for name in zones})

    def seen(self, available: Collection[str]) -> Weather:
        """The weather after one more look, a tick after the last."""
        kept = 0.5 ** (self.tick_s / HALF_LIFE_S)

        def after(spell: Spell, goes_on: bool) -> Spell:
            return spell.seen(goes_on, kept) if self.ticks else Spell(FOUND if goes_on else 0)

        return Weather(
            tick_s=self.tick_s,
            zones={name: after(zone, name in available) for name, zone in self.zones.items()},
            drought=after(self.drought, not available),
            ticks=self.ticks * kept + 1,
        )

    @property
    def returns_per_s(self) -> float:
        """How often spot came back after there was none at all."""
        return (self.drought.ends + ASSUMED_STARTS) / (self.ticks * self.tick_s + ASSUMED_S)
