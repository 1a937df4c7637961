"""Estimate how long a zone keeps spot machines and how soon spot returns, from one observation per tick.

A tick is the time between two decisions about a job. An interval is a period in which a zone has spot
machines without a break, or in which no zone has any. The hazard of an interval is the probability that it
ends at the next tick. It differs by zone and changes over time: a zone that interrupted machines recently is
likely to do so again. It also falls with the age of the interval: before anything is observed, an interval
that is t ticks old is assumed to have a hazard of 0.2 / √t.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import sqrt

PRIOR_HAZARD = 0.2  # of an interval of one tick
PRIOR_WEIGHT = 0.5  # in ends: the weight of the prior against observations
MAX_HAZARD = 0.95  # upper bound of a hazard
NEGLIGIBLE = 0.001  # survival probability at which an outlook stops
INITIAL_AGE = 4  # in ticks: assumed age of an interval at the first observation
HALF_LIFE_S = 8 * 3600.0  # of the weight of observations
PRIOR_PERIOD_S, PRIOR_RETURNS = 4 * 3600.0, 1.0  # prior: spot returns once in four hours


def prior_hazard(age: float) -> float:
    return PRIOR_HAZARD / sqrt(age)


@dataclass(frozen=True, slots=True)
class Outlook:
    """A forecast of how much longer a period with (or without) spot machines lasts, up to a limit.

    `expected_ticks` is the expected number of further ticks, `survival` the probability that the period reaches the
    limit. A tick is the time between two decisions about a job.
    """

    expected_ticks: float
    survival: float


@dataclass(frozen=True, slots=True)
class AvailabilityInterval:
    """A period in which a zone has spot machines, or in which no zone has any.

    `age` is in ticks, 0 while there is no such period. `expected_ends` and `ends` count how often intervals
    were expected to end and did end; older counts have less weight.
    """

    age: int = 0
    expected_ends: float = 0.0
    ends: float = 0.0

    def observe(self, continues: bool, decay: float = 1.0) -> AvailabilityInterval:
        """Return the period one tick later, given whether it continued. Earlier counts are multiplied by `decay`."""
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
        """The probability that the period ends at the next tick."""
        return min(
            MAX_HAZARD,
            (self.ends + PRIOR_WEIGHT) / (self.expected_ends + PRIOR_WEIGHT) * prior_hazard(max(1, self.age)),
        )

    def outlook(self, max_ticks: float) -> Outlook:
        """Return a forecast for the next `max_ticks` ticks, including the current one.

        The calculation takes into account that a period becomes less likely to end the longer it lasts.
        """
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
    """Spot availability in each zone, and the periods in which no zone has spot (`outage`).

    The weight of an observation falls exponentially with its age.
    """

    tick_s: float
    zones: dict[str, AvailabilityInterval]
    outage: AvailabilityInterval = field(default_factory=AvailabilityInterval)
    ticks: float = 0.0

    @classmethod
    def initial(cls, zones: Iterable[str], tick_s: float) -> SpotAvailability:
        return cls(tick_s=tick_s, zones={name: AvailabilityInterval() for name in zones})

    def observe(self, available: Collection[str]) -> SpotAvailability:
        """Return the availability at the next tick (time of a decision), updated with one observation.

        `available` lists the zones that have spot machines now.
        """
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
        """How often per second spot came back after no zone had any, as a weighted average of the past."""
        return (self.outage.ends + PRIOR_RETURNS) / (self.ticks * self.tick_s + PRIOR_PERIOD_S)
