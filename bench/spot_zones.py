"""Made-up zones beyond moods: a region whose zones run short together, and zones that follow the hour of the day."""

import random
from math import sin, tau

from anygpu.plan.spot.replay import SYNTHETIC_ZONES, SpotTrace, synthetic_trace

TICKS, TICK_S = 4000, 600.0
DAY_TICKS = 144
STAY_ON, STAY_SHORT = 40, 12  # mean ticks between shortages of the whole region, and of one
SHORT = 0.9  # how surely a shortage closes a zone at a tick


def region(seed: int, zones: int = 4) -> list[SpotTrace]:
    """Zones of any moods, which a shortage closes all at once."""
    chance = random.Random(f"region {seed}")
    shortage: list[bool] = []
    while len(shortage) < TICKS:
        shortage += [False] * max(1, round(chance.expovariate(1 / STAY_ON)))
        shortage += [True] * max(1, round(chance.expovariate(1 / STAY_SHORT)))
    made = [
        synthetic_trace(chance.choice(list(SYNTHETIC_ZONES)), 10 * seed + number, ticks=TICKS)
        for number in range(zones)
    ]
    return [
        SpotTrace(
            f"region-{seed}-{number}",
            TICK_S,
            [
                int(there and not (short and chance.random() < SHORT))
                for there, short in zip(zone.available, shortage, strict=False)
            ],
        )
        for number, zone in enumerate(made)
    ]


def daily(seed: int) -> SpotTrace:
    """A zone that is hard to get for half of each day."""
    chance = random.Random(f"daily {seed}")
    phase, lasting = chance.random() * DAY_TICKS, chance.choice([4, 12, 40])
    there, available = True, []
    for tick in range(TICKS):
        busy = (1 + sin(tau * (tick - phase) / DAY_TICKS)) / 2
        there = chance.random() > (0.2 + 2 * busy) / lasting if there else chance.random() < (1.2 - busy) / 6
        available.append(int(there))
    return SpotTrace(f"daily-{seed}", TICK_S, available)


def neighbours(seed: int) -> list[SpotTrace]:
    """Two regions and six zones that follow the day."""
    return [*region(seed), *region(seed + 1), *(daily(seed + number) for number in range(6))]
