"""What a run on an offer will take and cost: set-up, data, training, interruptions, and the provider's rule."""

from dataclasses import dataclass
from math import ceil, inf

from anygpu.events.facts import HOUR_S, Offer
from anygpu.plan.checkpointing import expected_s, interval_s

GIB_A_SECOND = 0.05  # over the internet, 400 Mbit/s; a link that is known replaces it
SPOT_LIFE_S = 6 * 3600.0  # between two interruptions, where nobody has counted them
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
class Run:
    """What is to be done, on whichever machine. Sizes in GiB."""

    training_s: Span  # on this offer, uninterrupted
    save_s: float = 5.0  # how long one checkpoint holds training up
    setup_s: float = 60.0  # from a machine that answers to the first step
    upload_gib: float = 0.0
    download_gib: float = 0.0
    resumes: bool = False  # so it may go on in another run where one may not last as long


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is known of the place beside its offer."""

    boot_s: float = 60.0  # the wait that the offer speaks of, where it does
    egress_microusd_per_gib: int = 0
    between_interruptions_s: float = SPOT_LIFE_S
    gib_a_second: float = GIB_A_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Seconds from the order to the end, and micro-dollars, each with its parts."""

    wall_s: Span
    cost_microusd: Span
    setup_s: float
    transfer_s: float
    saving_s: float  # checkpoints, and what interruptions lose
    egress_microusd: int
    every_s: float  # how often to save there
    runs: int = 1  # one after the other, where none may last as long as the job


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From the order to the end, in so many runs."""

    wall_s: float
    runs: int

    def billed_s(self, offer: Offer) -> int:
        """Each run is charged by itself."""
        return self.runs * offer.billing.billed_s(round(self.wall_s / self.runs))

    def cost_microusd(self, offer: Offer) -> int:
        """To the nearest micro-dollar, half up."""
        return (offer.price_microusd_per_hour * self.billed_s(offer) + HOUR_S // 2) // HOUR_S


def bill(offer: Offer, run: Run, place: Circuit) -> Bill:
    """The whole of it, not the price of an hour."""
    training = run.training_s
    spans = [
        stretch(offer, run, place, work_s) for work_s in (training.expected, training.low, training.high)
    ]
    walls = [span.wall_s for span in spans]
    egress = egress_microusd(run, place)
    costs = [span.cost_microusd(offer) + egress for span in spans]
    return Bill(
        wall_s=Span(expected=walls[0], low=walls[1], high=walls[2]),
        cost_microusd=Span(expected=costs[0], low=costs[1], high=costs[2]),
        setup_s=place.boot_s + run.setup_s,
        transfer_s=_transfer_s(run, place),
        saving_s=_training_s(offer, run, place, training.expected) - training.expected,
        egress_microusd=egress,
        every_s=interval_s(run.save_s, _dies_after_s(offer, place)),
        runs=spans[0].runs,
    )


def stretch(offer: Offer, run: Run, place: Circuit, work_s: float) -> Stretch:
    """For so much training, with its checkpoints and what interruptions lose."""
    around_s, longest_s = _around_s(run, place), offer.longest_s
    training_s = _training_s(offer, run, place, work_s)
    whole_s = around_s + training_s
    if whole_s <= longest_s or longest_s <= 0 or not run.resumes:
        return Stretch(wall_s=whole_s, runs=1)
    # How long a start takes is a guess: who rents by the minute is quick to start.
    start_s, handover_s = min(around_s, longest_s / 4), min(HANDOVER_S, longest_s / 4)
    runs = max(1, ceil(training_s / (longest_s - start_s - handover_s)))
    return Stretch(wall_s=whole_s + (runs - 1) * start_s, runs=runs)


def egress_microusd(run: Run, place: Circuit) -> int:
    return round(run.download_gib * place.egress_microusd_per_gib)


def _around_s(run: Run, place: Circuit) -> float:
    return place.boot_s + run.setup_s + _transfer_s(run, place)


def _transfer_s(run: Run, place: Circuit) -> float:
    return (run.upload_gib + run.download_gib) / place.gib_a_second


def _dies_after_s(offer: Offer, place: Circuit) -> float:
    return place.between_interruptions_s if offer.interruptible else inf


def _training_s(offer: Offer, run: Run, place: Circuit, work_s: float) -> float:
    """With the checkpoints, and what interruptions lose."""
    dies_after_s = _dies_after_s(offer, place)
    return expected_s(
        work_s,
        save_s=run.save_s,
        every_s=interval_s(run.save_s, dies_after_s),
        between_failures_s=dies_after_s,
        restart_s=RESTART_S,
    )
