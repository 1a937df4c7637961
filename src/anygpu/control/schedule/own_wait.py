"""Let a short job wait for an own machine that is busy, if a rented machine would only be starting meanwhile.

Renting takes time: the machine boots and the job's packages are installed. If that takes longer than the whole job
would take on the own machine, the job first waits. It rents when the own machine is predicted to become free too late.
If nothing predicts that, it rents when it has waited as long as starting the rented machine takes. It is then done at
most that time later than if it had rented at once. docs/explanation/planning.md has the rule.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from anygpu.control.schedule.compare import JobComparison
from anygpu.control.schedule.queue import SlotPool, SlotUse, waiting_since_ms
from anygpu.events.slots import needed_slots
from anygpu.events.view import JobView
from anygpu.plan.offers.comparison import RankedOffer
from anygpu.plan.offers.selection import FitResult, Plan

PREDICTED = ("said", "history")  # predictions that are good enough to wait for
FOR_MONEY = (None, "cheapest", "balanced")  # strategies


class SlotForecast:
    """Predicts when GPUs or CPUs (slots) of own machines become free, from the predicted ends of running jobs."""

    def __init__(self, busy: Iterable[tuple[Hashable, int, float]]) -> None:
        """Create the forecast. Most runs of the scheduler do not need it, so `busy` is read when it is first used.

        `busy` lists machines, each with a number of GPUs or CPUs in use and the seconds until they are free.
        """
        self._busy = busy

    @cached_property
    def _free_in(self) -> dict[Hashable, list[float]]:
        free_in: dict[Hashable, list[float]] = {}
        for pool, slots, seconds in self._busy:
            free_in.setdefault(pool, []).extend([seconds] * slots)
        return free_in

    def wait_s(self, pool: Hashable, slots: int) -> float:
        """Return the seconds until this number of GPUs or CPUs of a machine is free; infinite if that is not known."""
        times = sorted(self._free_in.get(pool, ()))
        return times[slots - 1] if 0 < slots <= len(times) else inf

    def is_busy(self, pool: Hashable) -> bool:
        return pool in self._free_in

    def add(self, pool: Hashable, slots: int, run_s: float) -> None:
        """Assign the GPUs or CPUs that become free first to a waiting job, so that jobs behind it wait longer."""
        until_s = self.wait_s(pool, slots) + run_s
        times = sorted(self._free_in.get(pool, ()))
        self._free_in[pool] = [until_s] * min(slots, len(times)) + times[slots:]


def slot_forecast(slot_uses: Iterable[SlotUse], now_ms: int) -> SlotForecast:
    uses = [*slot_uses]  # as they are now: the scheduler adds jobs
    return SlotForecast((use.pool, use.slots, remaining_run_s(use.view, now_ms)) for use in uses)


def remaining_run_s(view: JobView, now_ms: int) -> float:
    """Return the predicted seconds until a running job ends; infinite without a valid prediction."""
    total_s = view.prediction.wall_s if view.prediction else view.spec.placement.expected_duration_s
    if total_s is None or not view.attempts:
        return inf
    left_s = total_s - (now_ms - view.attempts[0].launching_at_ms) / 1000
    return left_s if left_s > 0 else inf


@dataclass(frozen=True, slots=True)
class OwnMachineWait:
    """A decision to wait for an own machine: its slots (GPUs or CPUs), the run time there, when to decide again."""

    pool: SlotPool
    run_s: float
    at_most_s: float  # from now
    reason: str


def wait_for_own_machine(
    view: JobView, plan: Plan, compared: JobComparison | None, forecast: SlotForecast, now_ms: int
) -> OwnMachineWait | None:
    """Return the own machine that a short job should wait for; None if the job should take the plan's choice."""
    choice = plan.choice
    if choice is None or not choice.is_rented or view.spec.placement.strategy not in FOR_MONEY:
        return None
    rented = compared.ranked(choice) if compared is not None else None
    if compared is None or rented is None:
        return None
    waited_s = (now_ms - waiting_since_ms(view)) / 1000
    kind, slots = needed_slots(view.spec.resources)
    for busy in (each for each in plan.ranked if _is_busy_own_machine(each)):
        pool, own = (busy.offer.key, kind), compared.ranked(busy.offer)
        if own is None or not forecast.is_busy(pool):
            continue
        at_most_s = _patience_s(own, rented, forecast.wait_s(pool, slots), waited_s)
        if at_most_s > 0:
            reason = (
                f"{busy.offer.backend} is busy, but is expected to finish the job before a rented machine"
            )
            return OwnMachineWait(pool, own.bill.wall_s.expected, at_most_s, reason)
    return None


def apply_wait(plan: Plan, wait: OwnMachineWait) -> Plan:
    """Return the plan, changed so that the job does not use rented offers yet."""
    return Plan(
        ranked=tuple(
            replace(each, wait_reason=wait.reason)
            if each.offer.is_rented and not each.rejection and not each.wait_reason
            else each
            for each in plan.ranked
        )
    )


def _is_busy_own_machine(result: FitResult) -> bool:
    return result.full and bool(result.wait_reason) and not result.rejection and not result.offer.is_rented


def _patience_s(own: RankedOffer, rented: RankedOffer, free_in_s: float, waited_s: float) -> float:
    """Return how many seconds the job should still wait for the own machine; 0 if it should rent at once."""
    own_s = own.bill.wall_s.expected
    start_s = rented.bill.setup_s + rented.bill.transfer_s - own.bill.setup_s - own.bill.transfer_s
    if own.basis not in PREDICTED or start_s < own_s:
        return 0.0
    rented_s = rented.bill.wall_s.expected if rented.basis in PREDICTED else own_s + start_s
    if free_in_s < inf:
        is_faster = (
            free_in_s + own_s <= rented_s and waited_s < rented_s
        )  # after that, the prediction was wrong
        return free_in_s if is_faster else 0.0
    return max(0.0, start_s - waited_s)
