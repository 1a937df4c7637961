"""How long spot lasts and how soon it comes back, learnt from what was seen lately. No clock: one look a tick.

Zones have moods: one that lost machines lately loses more of any age, one that kept them goes on keeping them.
Beside that the young go sooner than the old: before anything was seen, a spell of t ticks is assumed to end with
probability 0.2 / √t.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import sqrt

PRIOR_HAZARD = 0.2  # how likely a spell of one tick is to end
PRIOR_WEIGHT = 0.5  # ends: so little does the assumption weigh against what was seen
MAX_HAZARD = 0.95  # nothing is given up more surely than this
NEGLIGIBLE = 0.001  # what is less likely adds nothing that counts
INITIAL_AGE = 4  # ticks: the age of what is there at the first look; it has hardly just begun
HALF_LIFE_S = 8 * 3600.0  # what was seen so long ago counts half: moods change
PRIOR_PERIOD_S, PRIOR_RETURNS = 4 * 3600.0, 1.0  # spot comes back once in four hours, until seen otherwise


def prior_hazard(age: float) -> float:
    return PRIOR_HAZARD / sqrt(age)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to be expected of a spell within a time: how many ticks of it, and the chance of all of them."""

    expected_ticks: float
    survival: float


@dataclass(frozen=True, slots=True)
class AvailabilityInterval:
    """Spot in a zone, or none anywhere: its age in ticks; how many such spells should have ended, and how many did."""

    age: int = 0
    expected_ends: float = 0.0
    ends: float = 0.0

    def observe(self, continues: bool, decay: float = 1.0) -> AvailabilityInterval:
        """The spell after one more look; of what was counted before, `kept` still counts."""
        due, ends = self.expected_ends * decay, self.ends * decay
        if not self.age:
            return AvailabilityInterval(int(continues), due, ends)
        due += prior_hazard(self.age)
        return (
            AvailabilityInterval(self.age + 1, due, ends)
            if continues
            else AvailabilityInterval(0, due, ends + 1)
        )

    @property
    def hazard(self) -> float:
        """The probability that it ends within a tick."""
        return min(
            MAX_HAZARD,
            (self.ends + PRIOR_WEIGHT) / (self.expected_ends + PRIOR_WEIGHT) * prior_hazard(max(1, self.age)),
        )

    def outlook(self, max_ticks: float) -> Outlook:
        """For the next `most` ticks, this one included. The longer it lasts the better its mood turns out to be."""
        if not self.age:
            return Outlook(0.0, 0.0)
        ahead, ends, due, ticks, survival = (
            0.0,
            self.ends + PRIOR_WEIGHT,
            self.expected_ends + PRIOR_WEIGHT,
            0.0,
            1.0,
        )
        while ahead < max_ticks and survival > NEGLIGIBLE:
            step = min(max(1.0, ahead // 3), max_ticks - ahead)
            middle = max(0.0, (step - 1) / 2)
            prior = prior_hazard(self.age + ahead + middle)
            hazard = min(MAX_HAZARD, ends / (due + prior * middle) * prior)
            survives = (1 - hazard) ** step
            ticks += survival * min(step, (1 - survives) / hazard)
            ahead, due, survival = ahead + step, due + prior * step, survival * survives
        return Outlook(ticks, survival)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotAvailability:
    """Spot in each zone, and the times without any. What is long ago has faded."""

    tick_s: float
    zones: dict[str, AvailabilityInterval]
    outage: AvailabilityInterval = field(default_factory=AvailabilityInterval)
    ticks: float = 0.0

    @classmethod
    def initial(cls, zones: Iterable[str], tick_s: float) -> SpotAvailability:
        return cls(tick_s=tick_s, zones={name: AvailabilityInterval() for name in zones})

    def observe(self, available: Collection[str]) -> SpotAvailability:
        """The weather after one more look, a tick after the last."""
        decay = 0.5 ** (self.tick_s / HALF_LIFE_S)

        def after(interval: AvailabilityInterval, continues: bool) -> AvailabilityInterval:
            return (
                interval.observe(continues, decay)
                if self.ticks
                else AvailabilityInterval(INITIAL_AGE if continues else 0)
            )

        return SpotAvailability(
            tick_s=self.tick_s,
            zones={name: after(zone, name in available) for name, zone in self.zones.items()},
            outage=after(self.outage, not available),
            ticks=self.ticks * decay + 1,
        )

    @property
    def returns_per_s(self) -> float:
        """How often spot came back after there was none at all."""
        return (self.outage.ends + PRIOR_RETURNS) / (self.ticks * self.tick_s + PRIOR_PERIOD_S)
