"""Estimate the time and cost of a run on an offer, including interruptions, checkpoints and credit."""

from dataclasses import dataclass
from math import ceil, exp, inf, sqrt

from anygpu.events.offers import HOUR_S, Offer

CREDIT_WEIGHT = 0.5  # of a dollar: what a dollar of credit counts


def out_of_pocket_cost(cost: float, credit: float) -> float:
    """What is left to pay when the credit is gone."""
    return max(0.0, cost - credit)


def weighted_cost(cost: float, credit: float) -> float:
    """Rises with the cost. A dollar of credit could pay for something else, a dollar of money for anything."""
    return out_of_pocket_cost(cost, credit) + CREDIT_WEIGHT * min(cost, credit)


MAX_EXPONENT = 50.0  # e to this power of lifetimes is never, and still a number to reckon with


def checkpoint_interval_s(save_s: float, between_failures_s: float) -> float:
    """The pause between two checkpoints that wastes least (J. T. Daly, FGCS 22, 2006: second-order estimate)."""
    if between_failures_s == inf or save_s <= 0:
        return inf if between_failures_s == inf else 0.0
    ratio = save_s / (2 * between_failures_s)
    if ratio >= 1:
        return between_failures_s
    return sqrt(2 * save_s * between_failures_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - save_s


def expected_wall_s(
    work_s: float, *, save_s: float, every_s: float, between_failures_s: float, restart_s: float
) -> float:
    """Wall time for `work_s` of training that saves, on machines that die after an exponential time (Daly 2006)."""
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


def expected_loss_s(
    work_s: float, *, save_s: float, every_s: float, between_failures_s: float, restart_s: float
) -> float:
    """What saving, dying and going on again add to the work."""
    return (
        expected_wall_s(
            work_s,
            save_s=save_s,
            every_s=every_s,
            between_failures_s=between_failures_s,
            restart_s=restart_s,
        )
        - work_s
    )


GIB_PER_S = 0.05  # over the internet, 400 Mbit/s; a link that is known replaces it
SPOT_LIFETIME_S = 6 * 3600.0  # between two interruptions, where nobody has counted them
RESTART_S = 180.0  # another machine, its environment, the checkpoint
HANDOVER_S = 300.0  # before the end of a machine's longest run: for saving and stopping


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A quantity that is not known exactly: expected, and where it lies nine times in ten."""

    expected: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "Span":
        return cls(expected=value, low=value, high=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEstimate:
    """What is to be done, on whichever machine. Sizes in GiB."""

    training_s: Span  # on this offer, uninterrupted
    save_s: float = 5.0  # how long one checkpoint holds training up
    setup_s: float = 60.0  # from a machine that answers to the first step
    upload_gib: float = 0.0
    download_gib: float = 0.0
    resumes: bool = False  # so it may go on in another run where one may not last as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What is known of the place beside its offer."""

    boot_s: float = 60.0  # the wait that the offer speaks of, where it does
    egress_microusd_per_gib: int = 0
    between_interruptions_s: float = SPOT_LIFETIME_S
    gib_per_s: float = GIB_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Seconds from the order to the end, and micro-dollars, each with its parts."""

    wall_s: Span
    cost_microusd: Span
    setup_s: float
    transfer_s: float
    interruptions_s: float  # checkpoints, and what interruptions lose
    egress_microusd: int
    checkpoint_every_s: float  # how often to save there
    runs: int = 1  # one after the other, where none may last as long as the job


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """From the order to the end, in so many runs."""

    wall_s: float
    runs: int

    def billed_s(self, offer: Offer) -> int:
        """Each run is charged by itself."""
        return self.runs * offer.billing.billed_s(round(self.wall_s / self.runs))

    def cost_microusd(self, offer: Offer) -> int:
        """To the nearest micro-dollar, half up."""
        return (offer.price_microusd_per_hour * self.billed_s(offer) + HOUR_S // 2) // HOUR_S


def estimate_bill(offer: Offer, run: RunEstimate, overheads: Overheads) -> Bill:
    """The whole of it, not the price of an hour."""
    training = run.training_s
    run_times = [
        run_time(offer, run, overheads, work_s) for work_s in (training.expected, training.low, training.high)
    ]
    wall_times = [span.wall_s for span in run_times]
    egress = egress_microusd(run, overheads)
    costs = [span.cost_microusd(offer) + egress for span in run_times]
    return Bill(
        wall_s=Span(expected=wall_times[0], low=wall_times[1], high=wall_times[2]),
        cost_microusd=Span(expected=costs[0], low=costs[1], high=costs[2]),
        setup_s=overheads.boot_s + run.setup_s,
        transfer_s=_transfer_s(run, overheads),
        interruptions_s=_training_s(offer, run, overheads, training.expected) - training.expected,
        egress_microusd=egress,
        checkpoint_every_s=checkpoint_interval_s(run.save_s, _between_interruptions_s(offer, overheads)),
        runs=run_times[0].runs,
    )


def run_time(offer: Offer, run: RunEstimate, overheads: Overheads, work_s: float) -> RunTime:
    """For so much training, with its checkpoints and what interruptions lose."""
    around_s, longest_s = _overhead_s(run, overheads), offer.max_run_or_inf_s
    training_s = _training_s(offer, run, overheads, work_s)
    whole_s = around_s + training_s
    if whole_s <= longest_s or longest_s <= 0 or not run.resumes:
        return RunTime(wall_s=whole_s, runs=1)
    # How long a start takes is a guess: who rents by the minute is quick to start.
    start_s, handover_s = min(around_s, longest_s / 4), min(HANDOVER_S, longest_s / 4)
    runs = max(1, ceil(training_s / (longest_s - start_s - handover_s)))
    return RunTime(wall_s=whole_s + (runs - 1) * start_s, runs=runs)


def egress_microusd(run: RunEstimate, overheads: Overheads) -> int:
    return round(run.download_gib * overheads.egress_microusd_per_gib)


def _overhead_s(run: RunEstimate, overheads: Overheads) -> float:
    return overheads.boot_s + run.setup_s + _transfer_s(run, overheads)


def _transfer_s(run: RunEstimate, overheads: Overheads) -> float:
    return (run.upload_gib + run.download_gib) / overheads.gib_per_s


def _between_interruptions_s(offer: Offer, overheads: Overheads) -> float:
    return overheads.between_interruptions_s if offer.interruptible else inf


def _training_s(offer: Offer, run: RunEstimate, overheads: Overheads, work_s: float) -> float:
    """With the checkpoints, and what interruptions lose."""
    dies_after_s = _between_interruptions_s(offer, overheads)
    return expected_wall_s(
        work_s,
        save_s=run.save_s,
        every_s=checkpoint_interval_s(run.save_s, dies_after_s),
        between_failures_s=dies_after_s,
        restart_s=RESTART_S,
    )
