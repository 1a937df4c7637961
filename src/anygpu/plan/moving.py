"""Staying or going: what is left of a running job, done where it is or elsewhere, in time and in money. Pure.

Going is stopping, another machine, its set-up, the checkpoint there, and what no checkpoint holds done again. How much
work is left is as unsure here as there, so both are compared for the same work; what only going brings into doubt, the
other machine's speed and start, is taken at its bad end before a move counts as paying.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, sqrt
from typing import Literal

from anygpu.events.facts import Offer
from anygpu.plan import gpus
from anygpu.plan.bill import GIB_A_SECOND, RESTART_S, SPOT_LIFE_S, Span
from anygpu.plan.checkpointing import expected_s
from anygpu.plan.places import Place
from anygpu.plan.throughput import ELSEWHERE, NINE_IN_TEN, Work, pace, speedup, times_as_long

Mode = Literal["never", "advise", "act"]
STOP_S = 30.0  # from being asked to the machine's end, without the upload
MOST_LONGER = (
    2.0  # for less money, or for a place it likes better: what is left takes at most so many times as long
)
SAME_GPU = 0.08  # of the logarithm: processors, disks and cooling differ between machines with the same GPU
OTHER_GPU = sqrt(2) * ELSEWHERE  # neither of the two is exactly as its data sheet says


@dataclass(frozen=True, slots=True, kw_only=True)
class Moving:
    """When a job moves. What is not worth these figures is not worth the disturbance."""

    mode: Mode = "advise"
    share: float = 0.2  # of what is left of its cost or time
    least_microusd: int = 500_000
    least_s: float = 600
    most: int = 3  # moves of one job
    apart_s: float = 3600  # between two of them
    every_s: float = 600  # how often the places are compared again


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The machine it runs on, and for how long that has been billed."""

    offer: Offer
    price_microusd_per_hour: int
    used_s: float
    egress_microusd_per_gib: int = 0

    def cost_microusd(self, ahead_s: float) -> int:
        """Of so many seconds more; what is paid for already costs nothing."""
        return self._until(self.used_s + ahead_s) - self._until(self.used_s)

    def _until(self, used_s: float) -> int:
        return self.offer.billing.cost_microusd(self.price_microusd_per_hour, round(used_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is to be done yet, by the job's own pace here."""

    work_s: Span  # of training, uninterrupted
    unsaved_s: float = 0.0  # trained since the newest checkpoint
    checkpoint_gib: float = 0.0
    set_up_s: float = 120.0  # from a launch to training, as it was here
    every_s: float = 900.0  # between two checkpoints
    stop_limit_s: float = 120.0  # nobody waits longer for its last checkpoint
    step: Work | None = None  # what one does, where the code tells


@dataclass(frozen=True, slots=True)
class Luck:
    """What going brings into doubt."""

    bad: bool

    @property
    def set_up(self) -> float:
        return 2.0 if self.bad else 1.0

    @property
    def spot_life_s(self) -> float:
        return SPOT_LIFE_S / 2 if self.bad else SPOT_LIFE_S


USUAL, BAD = Luck(bad=False), Luck(bad=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """From now until it is done."""

    wall_s: float
    cost_microusd: float
    machine_s: float  # on the machine on which it is done


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Of going over staying; negative where staying is better."""

    saves_microusd: float
    sooner_s: float
    of_cost: float  # what is saved, as a share of what is left to pay
    of_time: float

    @classmethod
    def between(cls, stay: Total, go: Total) -> "Gain":
        saves, sooner_s = stay.cost_microusd - go.cost_microusd, stay.wall_s - go.wall_s
        return cls(
            saves_microusd=saves,
            sooner_s=sooner_s,
            of_cost=saves / max(1.0, stay.cost_microusd),
            of_time=sooner_s / max(1.0, stay.wall_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One place beside the one it runs on: what going there is expected to bring, and with bad luck."""

    place: Place
    stay: Total
    worst: Total
    usual: Gain
    unlucky: tuple[Gain, ...]

    @property
    def saves_low_microusd(self) -> float:
        return min(self.usual.saves_microusd, *(gain.saves_microusd for gain in self.unlucky))

    @property
    def sooner_low_s(self) -> float:
        return min(self.usual.sooner_s, *(gain.sooner_s for gain in self.unlucky))


def change(here: Here, left: Left, there: Place) -> Change | None:
    """None where nothing tells how fast the job would be there."""
    slower = times_slower(speed_of(there.offer), speed_of(here.offer), left.step)
    if slower is None:
        return None
    work = left.work_s
    stay, go = staying(here, left, work.expected), going(here, left, there, work.expected, slower, USUAL)
    pairs = [
        (staying(here, left, work_s), going(here, left, there, work_s, slower, BAD))
        for work_s in (work.low, work.expected, work.high)
    ]
    return Change(
        place=there,
        stay=stay,
        worst=pairs[-1][1],
        usual=Gain.between(stay, go),
        unlucky=tuple(Gain.between(*pair) for pair in pairs),
    )


def staying(here: Here, left: Left, work_s: float) -> Total:
    wall_s = interrupted_s(here.offer, work_s, left.every_s)
    return Total(wall_s=wall_s, cost_microusd=here.cost_microusd(wall_s), machine_s=wall_s)


def going(here: Here, left: Left, there: Place, work_s: float, slower: Span, luck: Luck) -> Total:
    """The old machine bills until it has stopped, the new one from its launch, at least its minimum."""
    carrying_s = left.checkpoint_gib / GIB_A_SECOND
    stop_s = left.stop_limit_s if luck.bad else min(left.stop_limit_s, STOP_S + carrying_s)
    again_s = (work_s + left.unsaved_s) * (slower.high if luck.bad else slower.expected)
    training_s = interrupted_s(there.offer, again_s, left.every_s, luck.spot_life_s)
    known = there.offer.backend == here.offer.backend
    set_up_s = left.set_up_s if known else max(left.set_up_s, there.boot_s)
    machine_s = set_up_s * luck.set_up + carrying_s + training_s
    egress = left.checkpoint_gib * here.egress_microusd_per_gib
    charged = there.offer.billing.cost_microusd(there.offer.price_microusd_per_hour, round(machine_s))
    return Total(
        wall_s=stop_s + machine_s,
        cost_microusd=here.cost_microusd(stop_s) + charged + egress,
        machine_s=machine_s,
    )


def pays(found: Change, strategy: str | None, rules: Moving, *, nearer: int = 0) -> bool:
    """In the spirit of the job's strategy. `nearer`: by how much earlier the place stands in the job's list."""
    if strategy == "queue" or (strategy == "preferred" and nearer < 0):
        return False
    if strategy != "fastest" and found.worst.wall_s > MOST_LONGER * _longest(found):
        return False
    if strategy == "preferred" and nearer > 0:
        return found.stay.wall_s >= rules.least_s
    sure = all(share(gain, strategy) > 0 for gain in found.unlucky)
    return sure and share(found.usual, strategy) >= rules.share and _is_worth(found.usual, strategy, rules)


def share(gain: Gain, strategy: str | None) -> float:
    """What is gained of what is left, by what the strategy counts."""
    match strategy:
        case "fastest":
            return gain.of_time
        case "balanced":
            return (gain.of_time + gain.of_cost) / 2
        case _:
            return gain.of_cost


def _is_worth(gain: Gain, strategy: str | None, rules: Moving) -> bool:
    saves, hastens = gain.saves_microusd >= rules.least_microusd, gain.sooner_s >= rules.least_s
    match strategy:
        case "fastest":
            return hastens
        case "balanced":
            return saves or hastens
        case _:
            return saves


def _longest(found: Change) -> float:
    """Staying, if the work turns out as long as in the worst case of going."""
    return found.worst.wall_s + found.unlucky[-1].sooner_s


def interrupted_s(offer: Offer, work_s: float, every_s: float, life_s: float = SPOT_LIFE_S) -> float:
    """Saving is not counted again: it is in the pace the job has. What ends before the next checkpoint is one piece."""
    if not offer.interruptible:
        return work_s
    piece_s = min(every_s, work_s)
    return expected_s(work_s, save_s=0.0, every_s=piece_s, between_failures_s=life_s, restart_s=RESTART_S)


@dataclass(frozen=True, slots=True)
class Speed:
    """What of a machine tells how fast it is."""

    gpu_kind: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: float


def speed_of(offer: Offer) -> Speed:
    return Speed(offer.gpu_kind, offer.gpu_count, offer.gpu_memory_gib, offer.cpus)


@lru_cache(maxsize=4096)
def times_slower(there: Speed, here: Speed, step: Work | None = None) -> Span | None:
    """How many times as long a step takes there. More GPUs than here are not counted: it may not use them."""
    if not here.gpu_count:
        return _doubted(1.0, SAME_GPU) if there.cpus >= here.cpus else None
    if not there.gpu_count:
        return None
    fewer = speedup(here.gpu_count) / speedup(min(there.gpu_count, here.gpu_count))
    if gpus.canonical(there.gpu_kind) == gpus.canonical(here.gpu_kind):
        return _doubted(fewer, SAME_GPU)
    new, old = (gpus.spec(each.gpu_kind, memory_gib=each.gpu_memory_gib) for each in (there, here))
    if new is None or old is None:
        return None
    return _doubted(fewer * _longer(new, old, step), OTHER_GPU)


def _longer(there: gpus.GpuSpec, here: gpus.GpuSpec, step: Work | None) -> float:
    """The job's own step where that is known, else a usual one."""
    if step is None:
        return times_as_long(there, here)
    return pace(step, there).step_s / pace(step, here).step_s


def _doubted(expected: float, spread: float) -> Span:
    factor = exp(NINE_IN_TEN * spread)
    return Span(expected=expected, low=expected / factor, high=expected * factor)
