"""How much a training has to do, and how long that takes on one machine or another."""

from dataclasses import dataclass, replace
from functools import cache
from math import exp, hypot, log
from typing import Literal

from anygpu.plan.bill import Span
from anygpu.plan.gpus import GpuSpec, spec
from anygpu.plan.throughput import Work, pace

# What several GPUs share: the batches there are, each batch, or nothing, since every one of them takes every step.
Sharing = Literal["batches", "batch", "nothing"]
REFERENCE = "A100-40GB"
UNKNOWN_MACHINE = 3.0
MOST = 20.0  # no interval is wider than this factor either way


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Something that was assumed, and the factor it may be off by."""

    what: str
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """One GPU's batch, how many of them there are, and what is not sure of that."""

    work: Work
    batches: float
    sharing: Sharing = "batches"
    doubts: tuple[Doubt, ...] = ()

    def on(self, gpu: GpuSpec, *, gpus: int = 1) -> Span:
        """Seconds of training; doubts add up as independent ones do."""
        whole = self.work if self.sharing == "batch" else replace(self.work, batch=self.work.batch * gpus)
        each = pace(whole, gpu, gpus=gpus)
        seconds = each.step_s * (self.batches / gpus if self.sharing == "batches" else self.batches)
        return _within(seconds, each.high_s / each.step_s, *(doubt.factor for doubt in self.doubts))

    def anywhere(self, *, slower: float) -> Span:
        """On a machine nobody knows, as many times as long as on the reference."""
        there = self.on(reference())
        return _within(there.expected * slower, there.high / there.expected, UNKNOWN_MACHINE)


@cache
def reference() -> GpuSpec:
    """What hours are counted on where no machine is named."""
    found = spec(REFERENCE)
    assert found is not None
    return found


def _within(seconds: float, *factors: float) -> Span:
    factor = min(MOST, exp(hypot(*map(log, factors))))
    return Span(expected=seconds, low=seconds / factor, high=seconds * factor)
