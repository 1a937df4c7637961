"""Staying or going: what is left of a running job, done where it is or elsewhere, in time and in money. Pure.

Going is stopping, another machine, its set-up, the checkpoint there, and what no checkpoint holds done again. How much
work is left is as unsure here as there, so both are compared for the same work; what only going brings into doubt, the
other machine's speed and start, is taken at its bad end before a move counts as paying.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, sqrt
from typing import Literal

from anygpu.events.offers import Offer
from anygpu.plan.hardware import gpus
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
MACHINE_STOP_S = 30.0  # from being asked to the machine's end, without the upload
MAX_SLOWDOWN = (
    2.0  # for less money, or for a place it likes better: what is left takes at most so many times as long
)
SAME_GPU_SPREAD = (
    0.08  # of the logarithm: processors, disks and cooling differ between machines with the same GPU
)
RELATIVE_GPU_SPREAD = sqrt(2) * OTHER_GPU_SPREAD  # neither of the two is exactly as its data sheet says


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPolicy:
    """When a job moves. What is not worth these figures is not worth the disturbance."""

    mode: MigrationMode = "advise"
    min_share: float = 0.2  # of what is left of its cost or time
    min_saving_microusd: int = 500_000
    min_saving_s: float = 600
    max_moves: int = 3  # moves of one job
    min_interval_s: float = 3600  # between two of them
    check_every_s: float = 600  # how often the places are compared again


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The machine it runs on, and for how long that has been billed."""

    offer: Offer
    price_microusd_per_hour: int
    used_s: float
    egress_microusd_per_gib: int = 0

    def cost_microusd(self, ahead_s: float) -> int:
        """Of so many seconds more; what is paid for already costs nothing."""
        return self._cost_until(self.used_s + ahead_s) - self._cost_until(self.used_s)

    def _cost_until(self, used_s: float) -> int:
        return self.offer.billing.cost_microusd(self.price_microusd_per_hour, round(used_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingWork:
    """What is to be done yet, by the job's own pace here."""

    work_s: Span  # of training, uninterrupted
    unsaved_s: float = 0.0  # trained since the newest checkpoint
    checkpoint_gib: float = 0.0
    setup_s: float = 120.0  # from a launch to training, as it was here
    checkpoint_every_s: float = 900.0  # between two checkpoints
    stop_limit_s: float = 120.0  # nobody waits longer for its last checkpoint
    step_work: StepWork | None = None  # what one does, where the code tells


@dataclass(frozen=True, slots=True)
class MigrationScenario:
    """What going brings into doubt."""

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
    """From now until it is done."""

    wall_s: float
    cost_microusd: float
    machine_s: float  # on the machine on which it is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """Of going over staying; negative where staying is better."""

    cost_microusd: float
    time_s: float
    cost_share: float  # what is saved, as a share of what is left to pay
    time_share: float

    @classmethod
    def from_totals(cls, stay: RemainingCost, go: RemainingCost) -> "Savings":
        saves, sooner_s = stay.cost_microusd - go.cost_microusd, stay.wall_s - go.wall_s
        return cls(
            cost_microusd=saves,
            time_s=sooner_s,
            cost_share=saves / max(1.0, stay.cost_microusd),
            time_share=sooner_s / max(1.0, stay.wall_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationOption:
    """One place beside the one it runs on: what going there is expected to bring, and with bad luck."""

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
    current: CurrentRun, remaining: RemainingWork, target: Candidate
) -> MigrationOption | None:
    """None where nothing tells how fast the job would be there."""
    slower = slowdown(machine_speed(target.offer), machine_speed(current.offer), remaining.step_work)
    if slower is None:
        return None
    work = remaining.work_s
    stay, go = (
        cost_of_staying(current, remaining, work.expected),
        cost_of_moving(current, remaining, target, work.expected, slower, EXPECTED_CASE),
    )
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


def cost_of_staying(current: CurrentRun, remaining: RemainingWork, work_s: float) -> RemainingCost:
    wall_s = with_interruptions_s(current.offer, work_s, remaining.checkpoint_every_s)
    return RemainingCost(wall_s=wall_s, cost_microusd=current.cost_microusd(wall_s), machine_s=wall_s)


def cost_of_moving(
    current: CurrentRun,
    remaining: RemainingWork,
    target: Candidate,
    work_s: float,
    slower: Span,
    scenario: MigrationScenario,
) -> RemainingCost:
    """The old machine bills until it has stopped, the new one from its launch, at least its minimum."""
    carrying_s = remaining.checkpoint_gib / GIB_PER_S
    stop_s = (
        remaining.stop_limit_s
        if scenario.worst_case
        else min(remaining.stop_limit_s, MACHINE_STOP_S + carrying_s)
    )
    again_s = (work_s + remaining.unsaved_s) * (slower.high if scenario.worst_case else slower.expected)
    training_s = with_interruptions_s(
        target.offer, again_s, remaining.checkpoint_every_s, scenario.spot_lifetime_s
    )
    known = target.offer.backend == current.offer.backend
    set_up_s = remaining.setup_s if known else max(remaining.setup_s, target.boot_s)
    machine_s = set_up_s * scenario.setup_factor + carrying_s + training_s
    egress = remaining.checkpoint_gib * current.egress_microusd_per_gib
    charged = target.offer.billing.cost_microusd(target.offer.price_microusd_per_hour, round(machine_s))
    return RemainingCost(
        wall_s=stop_s + machine_s,
        cost_microusd=current.cost_microusd(stop_s) + charged + egress,
        machine_s=machine_s,
    )


def is_worth_moving(
    option: MigrationOption, strategy: str | None, policy: MigrationPolicy, *, preference_gain: int = 0
) -> bool:
    """In the spirit of the job's strategy. `nearer`: by how much earlier the place stands in the job's list."""
    if strategy == "queue" or (strategy == "preferred" and preference_gain < 0):
        return False
    if strategy != "fastest" and option.worst_case.wall_s > MAX_SLOWDOWN * _worst_stay_s(option):
        return False
    if strategy == "preferred" and preference_gain > 0:
        return option.stay.wall_s >= policy.min_saving_s
    sure = all(savings_share(savings, strategy) > 0 for savings in option.pessimistic)
    return (
        sure
        and savings_share(option.expected, strategy) >= policy.min_share
        and _exceeds_minimum(option.expected, strategy, policy)
    )


def savings_share(savings: Savings, strategy: str | None) -> float:
    """What is gained of what is left, by what the strategy counts."""
    match strategy:
        case "fastest":
            return savings.time_share
        case "balanced":
            return (savings.time_share + savings.cost_share) / 2
        case _:
            return savings.cost_share


def _exceeds_minimum(savings: Savings, strategy: str | None, policy: MigrationPolicy) -> bool:
    saves, hastens = (
        savings.cost_microusd >= policy.min_saving_microusd,
        savings.time_s >= policy.min_saving_s,
    )
    match strategy:
        case "fastest":
            return hastens
        case "balanced":
            return saves or hastens
        case _:
            return saves


def _worst_stay_s(option: MigrationOption) -> float:
    """Staying, if the work turns out as long as in the worst case of going."""
    return option.worst_case.wall_s + option.pessimistic[-1].time_s


def with_interruptions_s(
    offer: Offer, work_s: float, every_s: float, life_s: float = SPOT_LIFETIME_S
) -> float:
    """Saving is not counted again: it is in the pace the job has. What ends before the next checkpoint is one piece."""
    if not offer.interruptible:
        return work_s
    piece_s = min(every_s, work_s)
    return expected_wall_s(
        work_s, save_s=0.0, every_s=piece_s, between_failures_s=life_s, restart_s=RESTART_S
    )


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """What of a machine tells how fast it is."""

    gpu_kind: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float


def machine_speed(offer: Offer) -> MachineSpeed:
    return MachineSpeed(offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.cpus)


@lru_cache(maxsize=4096)
def slowdown(target: MachineSpeed, current: MachineSpeed, step: StepWork | None = None) -> Span | None:
    """How many times as long a step takes there. More GPUs than here are not counted: it may not use them."""
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
    """The job's own step where that is known, else a usual one."""
    if step is None:
        return gpu_slowdown(target, current)
    return step_duration(step, target).step_s / step_duration(step, current).step_s


def _with_uncertainty(expected: float, spread: float) -> Span:
    factor = exp(Z_90 * spread)
    return Span(expected=expected, low=expected / factor, high=expected * factor)
