"""The gaps between the first steps of a run, sorted by what they tell: usual steps, and what is longer. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

WARM_UP = 3  # compilation, caches, first pages of data: never taken as typical
CLEAR = 4.0  # a gap this many times the usual step is a pause, not a slow step
NEAR = 1.5  # pauses of one kind differ by less
APART = 1.2  # all later steps are so much longer or shorter than all earlier ones: the pace has changed
TELLING = 3  # one step in so many has the new pace, or it is not yet one


@dataclass(frozen=True, slots=True)
class Gap:
    """`step` is the one it led to."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Gaps after the warm-up. `pace` are the usual steps since the pace last changed."""

    per_epoch: int | None
    within: Sequence[Gap]  # epochs
    at_ends: Sequence[Gap]  # of epochs
    long: Sequence[Gap]  # within epochs, and no steps: pauses that nobody announced
    pace: Sequence[Gap]
    usual_s: float

    @property
    def count(self) -> int:
        return len(self.within) + len(self.at_ends)

    @property
    def covered_s(self) -> float:
        return sum(gap.seconds for gap in self.pace)


def sort_out(
    times_s: Sequence[float], first_step: int, per_epoch: int | None, *, grows: bool = False
) -> Seen | None:
    """None while there is nothing to go by. Where every step is an epoch, its end tells nothing."""
    gaps = _after_warm_up(times_s, first_step)
    if not gaps:
        return None
    every = per_epoch if per_epoch and per_epoch > 1 else None
    within = [gap for gap in gaps if not (every and _ends_before(gap.step, every))] or gaps
    latest = within if grows else _settled(within)
    usual_s = median(gap.seconds for gap in latest)
    longest_s = _longest_step(within, usual_s)
    return Seen(
        per_epoch=every,
        within=within,
        at_ends=[gap for gap in gaps if every and _ends_before(gap.step, every)],
        long=[gap for gap in within if gap.seconds > longest_s],
        pace=[gap for gap in latest if gap.seconds <= longest_s],
        usual_s=usual_s,
    )


def _after_warm_up(times_s: Sequence[float], first_step: int) -> list[Gap]:
    gaps = [Gap(first_step + at, max(0.0, times_s[at] - times_s[at - 1])) for at in range(1, len(times_s))]
    return gaps[WARM_UP - 1 :] or gaps


def _ends_before(step: int, every: int) -> bool:
    return step > 1 and (step - 1) % every == 0


def _longest_step(gaps: Sequence[Gap], usual_s: float) -> float:
    """What is longer is a pause; what comes near to one that is clear is one too, so that a kind stays together."""
    clear = [gap.seconds for gap in gaps if gap.seconds > CLEAR * usual_s]
    return max(2 * usual_s, min(clear) / NEAR) if clear else CLEAR * usual_s


def _settled(gaps: Sequence[Gap]) -> Sequence[Gap]:
    """Since the pace last changed: a long warm-up ended, a buffer ran dry, the machine got hot."""
    usual_s = median(gap.seconds for gap in gaps)
    plain = [gap for gap in gaps if gap.seconds <= CLEAR * usual_s]
    seconds = [gap.seconds for gap in plain]
    if not min(seconds):  # steps in no time are none: they were reported together
        return gaps
    least, most = [*accumulate(seconds, min)], [*accumulate(seconds, max)]
    later_least, later_most = ([*accumulate(reversed(seconds), of)][::-1] for of in (min, max))
    for split in range(len(plain) - max(1, len(plain) // TELLING), 0, -1):
        is_shorter = least[split - 1] > APART * later_most[split]
        if is_shorter or most[split - 1] * APART < later_least[split]:
            return [gap for gap in gaps if gap.step >= plain[split].step]
    return gaps
