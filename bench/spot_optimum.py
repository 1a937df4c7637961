"""The least a job could have cost, had the future been known: a dynamic programme over time, work left and place."""

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from anygpu.plan.spot.policy import ON_DEMAND, MachineChoice, SpotJob

Costs = NDArray[np.float64]
Starting = tuple[MachineChoice, int]  # what runs, and how much of its restart is left


class Optimum:
    """Costs to finish, by units of work left. A unit divides the tick, the restart and the work: nothing is rounded."""

    def __init__(self, job: SpotJob, zones: Sequence[str], tick_s: float) -> None:
        sizes = [round(each) for each in (tick_s, job.restart_s, job.work_s)]
        self.unit_s = reduce(gcd, sizes)
        self.tick, self.restart, self.work = (each // self.unit_s for each in sizes)
        self.places = [ON_DEMAND, *(MachineChoice("spot", zone) for zone in zones)]
        self.usd_per_unit = {each: job.price_usd_per_hour(each) * self.unit_s / 3600 for each in self.places}
        self.left = np.arange(self.work + 1)
        self.starting = sorted({max(0, self.restart - n * self.tick) for n in range(1, self.work + 2)})

    def cost_usd(self, availability: Mapping[str, Sequence[int]], ticks: int) -> float:
        unfinished = np.where(self.left == 0, 0.0, np.inf)
        after: dict[Starting, Costs] = {(p, s): unfinished for p in self.places for s in self.starting}
        idle = unfinished
        for tick in reversed(range(ticks)):
            open_now = [p for p in self.places if p == ON_DEMAND or availability[p.zone][tick]]
            fresh = [self._during(p, self.restart, after) for p in open_now]
            idle = reduce(np.minimum, fresh, idle)
            after = {
                (p, s): np.minimum(idle, self._during(p, s, after)) if p in open_now else idle
                for p, s in after
            }
        return float(idle[self.work])

    def _during(self, place: MachineChoice, starting: int, after: Mapping[Starting, Costs]) -> Costs:
        """One tick on the place, and the best that can follow."""
        done = max(0, self.tick - starting)
        follows = after[place, max(0, starting - self.tick)]
        costs = np.empty(self.work + 1)
        price = self.usd_per_unit[place]
        costs[done:] = price * self.tick + follows[: self.work + 1 - done]
        if done:
            costs[: done + 1] = price * (starting + self.left[: done + 1])
        costs[0] = 0.0
        return costs
