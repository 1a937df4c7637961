"""Count the GPUs and CPUs that jobs use on the organisation's own machines. Pure functions.

A *slot* is one GPU, or one CPU for jobs without GPUs. A *tenant* is a project that shares the slots with others. Past
usage counts less the older it is.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from anygpu.events.view import AttemptView, JobView
from anygpu.spec.sections import Resources

HALF_LIFE_S = 72 * 3600.0


class SlotKind(StrEnum):
    """The kind of a slot: a GPU, or a CPU for jobs without GPUs."""

    GPU = "GPU"
    CPU = "CPU slot"


@dataclass(frozen=True, slots=True)
class SlotUsage:
    """How many slot-seconds (slots times seconds) a project has used. Usage loses half its weight every three days."""

    gpu_s: float = 0.0
    at_s: float = 0.0

    def decayed(self, now_s: float) -> float:
        """Return how many of the used slot-seconds (slots times seconds) still count at `now_s`.

        Nothing decays if `now_s` is before the last update, as after the clock was set back.
        """
        return float(self.gpu_s * 0.5 ** (max(0.0, now_s - self.at_s) / HALF_LIFE_S))

    def add(self, gpu_s: float, now_s: float) -> "SlotUsage":
        return SlotUsage(self.decayed(now_s) + gpu_s, max(now_s, self.at_s))


@dataclass(frozen=True, slots=True, order=True)
class TenantKey:
    """A project and a kind of slot (GPU or CPU). Each such tenant gets a fair share of the slots of that kind."""

    organisation: str
    project: str
    kind: SlotKind


def needed_slots(need: Resources) -> tuple[SlotKind, int]:
    """Return which slots a job needs, and how many on all its nodes together."""
    if need.gpu and need.gpu.count:
        return SlotKind.GPU, need.gpu.count * need.nodes
    return SlotKind.CPU, max(1, math.ceil(need.cpus or 1)) * need.nodes


def tenant_of(view: JobView) -> TenantKey:
    return TenantKey(view.organisation, view.project, needed_slots(view.spec.resources)[0])


def uses_own_slots(attempt: AttemptView) -> bool:
    """Return whether the attempt uses GPUs or CPUs of the organisation's own machines, which jobs share."""
    return attempt.offer.is_shared_by_jobs


def held_s(attempt: AttemptView, now_ms: int) -> float:
    """Return for how many seconds the attempt has used its GPUs or CPUs."""
    until_ms = attempt.released_at_ms
    return max(0, (now_ms if until_ms is None else until_ms) - attempt.launching_at_ms) / 1000


def used_slot_s(view: JobView, number: int) -> float:
    """Return how many slot-seconds (slots times seconds) an ended attempt has used. Zero on rented machines."""
    attempt = view.attempts[number - 1]
    if not uses_own_slots(attempt) or attempt.released_at_ms is None:
        return 0.0
    return held_s(attempt, attempt.released_at_ms) * needed_slots(view.spec.resources)[1]
