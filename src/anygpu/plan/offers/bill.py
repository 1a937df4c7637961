"""Estimate the time and cost of a job on an offer, including interruptions, checkpoints and credit."""

from dataclasses import dataclass
from math import ceil, exp, inf, sqrt

from anygpu.events.offers import HOUR_S, Offer

CREDIT_WEIGHT = 0.5  # docs/decisions/0010-provider-credit.md: credit is spent first, and is not free


def out_of_pocket_cost(cost: float, credit: float) -> float:
    """Return the part of the cost that the provider's credit does not cover.

    All amounts are in micro-dollars.
    """
    return max(0.0, cost - credit)


def weighted_cost(cost: float, credit: float) -> float:
    """Return the cost that offers are ranked by: a dollar paid from credit counts as half a dollar."""
    return out_of_pocket_cost(cost, credit) + CREDIT_WEIGHT * min(cost, credit)


MAX_EXPONENT = 50.0  # keeps exp() finite


def checkpoint_interval_s(save_s: float, between_failures_s: float) -> float:
    """Return the seconds between checkpoints that lose the least time to saving and to failures.

    The formula is the second-order estimate of J. T. Daly, FGCS 22, 2006. `save_s` is the time to save one
    checkpoint, `between_failures_s` the mean time between failures.
    """
    if between_failures_s == inf or save_s <= 0:
        return inf if between_failures_s == inf else 0.0
    ratio = save_s / (2 * between_failures_s)
    if ratio >= 1:
        return between_failures_s
    return sqrt(2 * save_s * between_failures_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - save_s


def expected_wall_s(
    work_s: float, *, save_s: float, every_s: float, between_failures_s: float, restart_s: float
) -> float:
    """Return the expected wall time of `work_s` seconds of training, with checkpoints and failures.

    The formula is from Daly 2006, see `checkpoint_interval_s`. `every_s` is the checkpoint interval.
    """
    if work_s <= 0:
        return 0.0
    pieces = work_s / every_s if 0 < every_s < inf else 1.0
    piece_s = work_s / pieces + (save_s if every_s < inf else 0.0)
    if between_failures_s == inf:
        return pieces * piece_s
    rate = 1 / between_failures_s
    return (
        between_failures_s
        * exp(min(MAX_EXPONENT, restart_s * rate))
        * (exp(min(MAX_EXPONENT, piece_s * rate)) - 1)
        * pieces
    )


GIB_PER_S = 0.05  # assumed internet link: 400 Mbit/s
SPOT_LIFETIME_S = 6 * 3600.0  # assumed mean time between two interruptions
RESTART_S = 180.0  # launch, environment and checkpoint on the next machine
HANDOVER_S = 300.0  # for saving and stopping before the maximum run time ends


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """An uncertain quantity: the expected value and a 90 % interval."""

    expected: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "Span":
        return cls(expected=value, low=value, high=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """The properties of a job that its time and cost depend on: training time, setup time and data to transfer."""

    training_s: Span  # on this offer, without interruptions
    save_s: float = 5.0  # how long one checkpoint pauses training
    setup_s: float = 60.0  # from the end of the boot to the first step
    upload_gib: float = 0.0
    download_gib: float = 0.0
    resumes: bool = False  # can continue in another run when the maximum run time is too short
    nodes: int = 1  # machines at the same time, each of which is billed


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """The properties of a machine that time and cost depend on: boot time, egress price, interruptions, bandwidth."""

    boot_s: float = 60.0
    egress_microusd_per_gib: int = 0
    between_interruptions_s: float = SPOT_LIFETIME_S
    gib_per_s: float = GIB_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Total time and cost of a job from launch to end, and how they are made up."""

    wall_s: Span
    cost_microusd: Span
    setup_s: float
    transfer_s: float
    interruptions_s: float  # time for checkpoints and time lost to interruptions
    egress_microusd: int
    checkpoint_every_s: float  # recommended checkpoint interval
    runs: int = 1  # consecutive runs, when the maximum run time is shorter than the job
    nodes: int = 1  # machines at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The time of a job from launch to end, and how many machines it uses one after another (runs)."""

    wall_s: float
    runs: int
    nodes: int = 1

    def billed_s(self, offer: Offer) -> int:
        """Return the billed seconds of all runs and machines together.

        The billing rule is applied to each run of each machine separately.
        """
        return self.nodes * self.runs * offer.billing.billed_s(round(self.wall_s / self.runs))

    def cost_microusd(self, offer: Offer) -> int:
        """Return the cost of the machine in micro-dollars, rounded half up."""
        return (offer.price_microusd_per_hour * self.billed_s(offer) + HOUR_S // 2) // HOUR_S


def estimate_bill(offer: Offer, run: RunEstimate, overheads: Overheads) -> Bill:
    """Estimate the total time and cost of a job on an offer."""
    training = run.training_s
    run_times = [
        run_time(offer, run, overheads, work_s) for work_s in (training.expected, training.low, training.high)
    ]
    wall_times = [each.wall_s for each in run_times]
    egress = egress_microusd(run, overheads)
    costs = [each.cost_microusd(offer) + egress for each in run_times]
    return Bill(
        wall_s=Span(expected=wall_times[0], low=wall_times[1], high=wall_times[2]),
        cost_microusd=Span(expected=costs[0], low=costs[1], high=costs[2]),
        setup_s=overheads.boot_s + run.setup_s,
        transfer_s=_transfer_s(run, overheads),
        interruptions_s=_training_s(offer, run, overheads, training.expected) - training.expected,
        egress_microusd=egress,
        checkpoint_every_s=checkpoint_interval_s(run.save_s, _between_interruptions_s(offer, run, overheads)),
        runs=run_times[0].runs,
        nodes=run.nodes,
    )


def run_time(offer: Offer, run: RunEstimate, overheads: Overheads, work_s: float) -> RunTime:
    """Return the wall time for `work_s` seconds of training.

    If the job can resume and one run would exceed the offer's maximum run time, the training is split into
    several runs.
    """
    overhead_s, longest_s = _overhead_s(run, overheads), offer.max_run_or_inf_s
    training_s = _training_s(offer, run, overheads, work_s)
    total_s = overhead_s + training_s
    if total_s <= longest_s or longest_s <= 0 or not run.resumes:
        return RunTime(wall_s=total_s, runs=1, nodes=run.nodes)
    # The start time is an assumption: machines rented for minutes start faster than that.
    start_s, handover_s = min(overhead_s, longest_s / 4), min(HANDOVER_S, longest_s / 4)
    runs = max(1, ceil(training_s / (longest_s - start_s - handover_s)))
    return RunTime(wall_s=total_s + (runs - 1) * start_s, runs=runs, nodes=run.nodes)


def egress_microusd(run: RunEstimate, overheads: Overheads) -> int:
    return round(run.download_gib * overheads.egress_microusd_per_gib)


def _overhead_s(run: RunEstimate, overheads: Overheads) -> float:
    return overheads.boot_s + run.setup_s + _transfer_s(run, overheads)


def _transfer_s(run: RunEstimate, overheads: Overheads) -> float:
    return (run.upload_gib + run.download_gib) / overheads.gib_per_s


def _between_interruptions_s(offer: Offer, run: RunEstimate, overheads: Overheads) -> float:
    """Return the mean time between interruptions of the job. If one of its machines is interrupted, the job is."""
    return overheads.between_interruptions_s / run.nodes if offer.interruptible else inf


def _training_s(offer: Offer, run: RunEstimate, overheads: Overheads, work_s: float) -> float:
    """Return the training time in seconds, including checkpoints and interruptions."""
    between_failures_s = _between_interruptions_s(offer, run, overheads)
    return expected_wall_s(
        work_s,
        save_s=run.save_s,
        every_s=checkpoint_interval_s(run.save_s, between_failures_s),
        between_failures_s=between_failures_s,
        restart_s=RESTART_S,
    )
