"""Compare finishing a running job on its machine with moving the job to another candidate. Pure functions.

A move costs time and money for stopping, for the launch and setup of another machine, for the transfer of
the checkpoint, and for repeating the work since the last checkpoint. How much work remains is uncertain
whether the job moves or stays, so both are compared for the same amount of work. The speed and setup time of
the other machine are uncertain too, so a move must also pay off in the worst case.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, sqrt
from typing import Literal

from anygpu.events.offers import Offer
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.networks import find_network
from anygpu.plan.offers.bill import GIB_PER_S, RESTART_S, SPOT_LIFETIME_S, Span, expected_wall_s
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.predict.step_time import (
    OTHER_GPU_SPREAD,
    Z_90,
    StepWork,
    gpu_slowdown,
    multi_gpu_speedup,
    step_duration,
)

MigrationMode = Literal["never", "advise", "act"]
MACHINE_STOP_S = 30.0  # from the stop request to the end of the machine, without the upload
MAX_SLOWDOWN = 2.0  # of the remaining work, when a move is for money or preference
# Spreads of the logarithm of the speed. Machines with the same GPU differ in CPU, disk and cooling.
SAME_GPU_SPREAD = 0.08
RELATIVE_GPU_SPREAD = sqrt(2) * OTHER_GPU_SPREAD  # both GPUs differ from their data sheets


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """Rules for moving a running job: the minimum savings, and limits on the number of moves."""

    mode: MigrationMode = "advise"
    min_share: float = 0.2  # of the remaining cost or time
    min_saving_microusd: int = 500_000
    min_saving_s: float = 600
    max_moves: int = 3  # per job
    min_interval_s: float = 3600  # between two moves
    check_every_s: float = 600  # how often candidates are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The machine that the job runs on, its price, and how long it has been used."""

    offer: Offer
    price_microusd_per_hour: int
    used_s: float
    egress_microusd_per_gib: int = 0
    nodes: int = 1  # machines that the job uses at the same time, here and after a move

    def cost_microusd(self, ahead_s: float) -> int:
        """Return the additional cost in micro-dollars if the machines are used for `ahead_s` more seconds."""
        return self.nodes * (self._cost_until(self.used_s + ahead_s) - self._cost_until(self.used_s))

    def _cost_until(self, used_s: float) -> int:
        return self.offer.billing.cost_microusd(self.price_microusd_per_hour, round(used_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingTraining:
    """The remaining work of a job, in seconds on its current machine, and what a move would need."""

    work_s: Span  # training without interruptions
    unsaved_s: float = 0.0  # trained since the newest checkpoint
    checkpoint_gib: float = 0.0
    setup_s: float = 120.0  # from launch to training, as measured on the current machine
    checkpoint_every_s: float = 900.0
    stop_limit_s: float = 120.0  # the longest wait for the last checkpoint
    step_work: StepWork | None = None  # None if the code was not analysed


@dataclass(frozen=True, slots=True)
class MigrationScenario:
    """Assumptions about what follows a move, for the expected or the worst case: setup time and interruptions."""

    worst_case: bool

    @property
    def setup_factor(self) -> float:
        return 2.0 if self.worst_case else 1.0

    @property
    def spot_lifetime_s(self) -> float:
        return SPOT_LIFETIME_S / 2 if self.worst_case else SPOT_LIFETIME_S


EXPECTED_CASE, WORST_CASE = MigrationScenario(worst_case=False), MigrationScenario(worst_case=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingCost:
    """Time and cost from now to the end of the job."""

    wall_s: float
    cost_microusd: float
    machine_s: float  # time on the machine that finishes the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Time and cost that a job saves if it moves instead of staying; negative if staying is better."""

    cost_microusd: float
    time_s: float
    cost_share: float  # of the remaining cost
    time_share: float  # of the remaining time

    @classmethod
    def from_totals(cls, stay: RemainingCost, go: RemainingCost) -> "Savings":
        cost, time_s = stay.cost_microusd - go.cost_microusd, stay.wall_s - go.wall_s
        return cls(
            cost_microusd=cost,
            time_s=time_s,
            cost_share=cost / max(1.0, stay.cost_microusd),
            time_share=time_s / max(1.0, stay.wall_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOption:
    """A possible move to one candidate, with its expected and its worst-case savings."""

    candidate: Candidate
    stay: RemainingCost
    worst_case: RemainingCost
    expected: Savings
    pessimistic: tuple[Savings, ...]

    @property
    def saves_low_microusd(self) -> float:
        return min(self.expected.cost_microusd, *(savings.cost_microusd for savings in self.pessimistic))

    @property
    def sooner_low_s(self) -> float:
        return min(self.expected.time_s, *(savings.time_s for savings in self.pessimistic))


def evaluate_migration(
    current: CurrentRun, remaining: RemainingTraining, target: Candidate
) -> MigrationOption | None:
    """Compare staying with moving to `target`; return None if the speed of the target is unknown.

    A job with several nodes is not moved to a slower network, because its speed there is too uncertain.
    """
    slower = slowdown(machine_speed(target.offer), machine_speed(current.offer), remaining.step_work)
    if slower is None or (current.nodes > 1 and _has_slower_network(target.offer, current.offer)):
        return None
    work = remaining.work_s
    stay = cost_of_staying(current, remaining, work.expected)
    go = cost_of_moving(current, remaining, target, work.expected, slower, EXPECTED_CASE)
    pairs = [
        (
            cost_of_staying(current, remaining, work_s),
            cost_of_moving(current, remaining, target, work_s, slower, WORST_CASE),
        )
        for work_s in (work.low, work.expected, work.high)
    ]
    return MigrationOption(
        candidate=target,
        stay=stay,
        worst_case=pairs[-1][1],
        expected=Savings.from_totals(stay, go),
        pessimistic=tuple(Savings.from_totals(*pair) for pair in pairs),
    )


def _has_slower_network(target: Offer, current: Offer) -> bool:
    new, old = (find_network(each.name, each.interconnect) for each in (target, current))
    return new.gbit_s < old.gbit_s


def cost_of_staying(current: CurrentRun, remaining: RemainingTraining, work_s: float) -> RemainingCost:
    wall_s = with_interruptions_s(current.offer, work_s, remaining.checkpoint_every_s)
    return RemainingCost(wall_s=wall_s, cost_microusd=current.cost_microusd(wall_s), machine_s=wall_s)


def cost_of_moving(
    current: CurrentRun,
    remaining: RemainingTraining,
    target: Candidate,
    work_s: float,
    slower: Span,
    scenario: MigrationScenario,
) -> RemainingCost:
    """Return the remaining time and cost if the job moves to `target`.

    The current machine is billed until it has stopped. The new machine is billed from its launch, for at
    least the provider's minimum time.
    """
    transfer_s = remaining.checkpoint_gib / GIB_PER_S
    stop_s = min(remaining.stop_limit_s, MACHINE_STOP_S + transfer_s)
    if scenario.worst_case:
        stop_s = remaining.stop_limit_s
    target_work_s = (work_s + remaining.unsaved_s) * (slower.high if scenario.worst_case else slower.expected)
    training_s = with_interruptions_s(
        target.offer, target_work_s, remaining.checkpoint_every_s, scenario.spot_lifetime_s
    )
    same_backend = target.offer.backend == current.offer.backend
    setup_s = remaining.setup_s if same_backend else max(remaining.setup_s, target.boot_s)
    machine_s = setup_s * scenario.setup_factor + transfer_s + training_s
    egress = remaining.checkpoint_gib * current.egress_microusd_per_gib
    each = target.offer.billing.cost_microusd(target.offer.price_microusd_per_hour, round(machine_s))
    charged = current.nodes * each
    return RemainingCost(
        wall_s=stop_s + machine_s,
        cost_microusd=current.cost_microusd(stop_s) + charged + egress,
        machine_s=machine_s,
    )


def is_worth_moving(
    option: MigrationOption, strategy: str | None, policy: MigrationPolicy, *, preference_gain: int = 0
) -> bool:
    """Return whether a move saves enough, by the job's strategy and the organisation's policy.

    `preference_gain` is how many positions earlier the target's backend is in the job's list of fallbacks.
    """
    if strategy == "queue" or (strategy == "preferred" and preference_gain < 0):
        return False
    if strategy != "fastest" and option.worst_case.wall_s > MAX_SLOWDOWN * _worst_stay_s(option):
        return False
    if strategy == "preferred" and preference_gain > 0:
        return option.stay.wall_s >= policy.min_saving_s
    always_saves = all(savings_share(savings, strategy) > 0 for savings in option.pessimistic)
    return (
        always_saves
        and savings_share(option.expected, strategy) >= policy.min_share
        and _exceeds_minimum(option.expected, strategy, policy)
    )


def savings_share(savings: Savings, strategy: str | None) -> float:
    """Return the savings as a fraction of what remains.

    For the strategy `fastest` it is the time, for `balanced` the mean of time and cost, else the cost.
    """
    match strategy:
        case "fastest":
            return savings.time_share
        case "balanced":
            return (savings.time_share + savings.cost_share) / 2
        case _:
            return savings.cost_share


def _exceeds_minimum(savings: Savings, strategy: str | None, policy: MigrationPolicy) -> bool:
    saves_money = savings.cost_microusd >= policy.min_saving_microusd
    saves_time = savings.time_s >= policy.min_saving_s
    match strategy:
        case "fastest":
            return saves_time
        case "balanced":
            return saves_money or saves_time
        case _:
            return saves_money


def _worst_stay_s(option: MigrationOption) -> float:
    """Return the remaining seconds if the job stays, for the amount of work that the worst case of the move has."""
    return option.worst_case.wall_s + option.pessimistic[-1].time_s


def with_interruptions_s(
    offer: Offer, work_s: float, every_s: float, life_s: float = SPOT_LIFETIME_S
) -> float:
    """Return the expected wall time of `work_s` seconds of training, with spot interruptions.

    The time to save checkpoints is not added, because the measured speed of the job already includes it.
    """
    if not offer.interruptible:
        return work_s
    return expected_wall_s(
        work_s,
        save_s=0.0,
        every_s=min(every_s, work_s),
        between_failures_s=life_s,
        restart_s=RESTART_S,
    )


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """The properties of a machine that determine its speed."""

    gpu_kind: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float


def machine_speed(offer: Offer) -> MachineSpeed:
    return MachineSpeed(offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.cpus)


@lru_cache(maxsize=4096)
def slowdown(target: MachineSpeed, current: MachineSpeed, step: StepWork | None = None) -> Span | None:
    """Return how many times longer a step takes on `target` than on `current`; None if unknown.

    If the target has more GPUs than the current machine, the additional ones are ignored, because the job
    may not use them.
    """
    if not current.gpu_count:
        return _with_uncertainty(1.0, SAME_GPU_SPREAD) if target.cpus >= current.cpus else None
    if not target.gpu_count:
        return None
    fewer = multi_gpu_speedup(current.gpu_count) / multi_gpu_speedup(min(target.gpu_count, current.gpu_count))
    if gpus.canonical_name(target.gpu_kind) == gpus.canonical_name(current.gpu_kind):
        return _with_uncertainty(fewer, SAME_GPU_SPREAD)
    new, old = (gpus.spec(each.gpu_kind, memory_gib=each.gpu_memory_gib) for each in (target, current))
    if new is None or old is None:
        return None
    return _with_uncertainty(fewer * _slowdown_between(new, old, step), RELATIVE_GPU_SPREAD)


def _slowdown_between(target: gpus.GpuSpec, current: gpus.GpuSpec, step: StepWork | None) -> float:
    """Return how many times longer `step` (if None, a typical step) takes on `target` than on `current`."""
    if step is None:
        return gpu_slowdown(target, current)
    return step_duration(step, target).step_s / step_duration(step, current).step_s


def _with_uncertainty(expected: float, spread: float) -> Span:
    factor = exp(Z_90 * spread)
    return Span(expected=expected, low=expected / factor, high=expected * factor)
