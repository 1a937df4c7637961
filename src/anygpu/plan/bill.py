"""What a run on an offer will take and cost: set-up, data, training, interruptions, and the provider's rule."""

from dataclasses import dataclass
from math import inf

from anygpu.events.facts import Offer
from anygpu.plan.checkpointing import expected_s, interval_s

GIB_A_SECOND = 0.05  # over the internet, 400 Mbit/s; a link that is known replaces it
SPOT_LIFE_S = 6 * 3600.0  # between two interruptions, where nobody has counted them
RESTART_S = 180.0  # another machine, its environment, the checkpoint


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """What is known of the place beside its offer."""

    boot_s: float = 60.0
    egress_microusd_per_gib: int = 0
    between_interruptions_s: float = SPOT_LIFE_S
    gib_a_second: float = GIB_A_SECOND
    wait_s: float | None = None  # before the machine is there; None: what the offer says


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


def bill(offer: Offer, run: Run, place: Circuit) -> Bill:
    """The whole of it, not the price of an hour."""
    around_s = _around_s(run, place)
    wait_s = _wait_s(offer, place)
    training = run.training_s
    walls = [
        around_s + _training_s(offer, run, place, seconds)
        for seconds in (training.expected, training.low, training.high)
    ]
    egress = egress_microusd(run, place)
    costs = [_charged(offer, wall_s) + egress for wall_s in walls]
    return Bill(
        wall_s=Span(expected=walls[0] + wait_s, low=walls[1], high=walls[2] + wait_s),
        cost_microusd=Span(expected=costs[0], low=costs[1], high=costs[2]),
        setup_s=place.boot_s + run.setup_s,
        transfer_s=_transfer_s(run, place),
        saving_s=walls[0] - around_s - training.expected,
        egress_microusd=egress,
        every_s=interval_s(run.save_s, _dies_after_s(offer, place)),
    )


def wall_s(offer: Offer, run: Run, place: Circuit) -> float:
    """The expected seconds alone, as `bill` has them."""
    return (
        _around_s(run, place)
        + _training_s(offer, run, place, run.training_s.expected)
        + _wait_s(offer, place)
    )


def egress_microusd(run: Run, place: Circuit) -> int:
    return round(run.download_gib * place.egress_microusd_per_gib)


def _around_s(run: Run, place: Circuit) -> float:
    return place.boot_s + run.setup_s + _transfer_s(run, place)


def _transfer_s(run: Run, place: Circuit) -> float:
    return (run.upload_gib + run.download_gib) / place.gib_a_second


def _wait_s(offer: Offer, place: Circuit) -> float:
    return offer.expected_wait_s if place.wait_s is None else place.wait_s


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


def _charged(offer: Offer, wall_s: float) -> int:
    return offer.billing.cost_microusd(offer.price_microusd_per_hour, round(wall_s))
