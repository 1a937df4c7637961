"""What stands between steps: found in the gaps between them, and how many are to come. Pure.

A pause is announced when it stands where an epoch ends; any other is known by its rhythm, or by how often it came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from anygpu.plan.gaps import CLEAR, Seen

SEEN, TOLD = 0.15, 0.3  # how far a pause may be off that was seen here, or in other runs; a share of it
ROUND = 5  # people say every 10, 25 or 100 steps; programs count from 0 or from 1
# Of an epoch, where no evaluation was seen: a fifth of the data held back, and only the forward pass.
EVALUATION = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Of one kind: how many are expected, how long one is, and how far all of them may be off."""

    left: int
    each_s: float
    doubt_s: float

    @property
    def total_s(self) -> float:
        return self.left * self.each_s


def between_epochs(seen: Seen, *, done: int, steps: int, told_s: float | None) -> list[Pauses]:
    """As long as those that were seen; else as was told; else as an evaluation usually is."""
    every = seen.per_epoch
    if not every:
        return []
    left = max(0, steps // every - max(0, done - 1) // every)
    if seen.at_ends or done >= steps:
        each_s = _usual_end([gap.seconds - seen.usual_s for gap in seen.at_ends] or [0.0])
        return [_expected(left, max(0.0, each_s), SEEN)]
    if told_s is not None:
        return [_expected(left, told_s, TOLD)]
    return [_expected(left, EVALUATION * every * seen.usual_s, 1.0)]


def unannounced(seen: Seen, *, done: int, steps: int) -> list[Pauses]:
    """Those with a rhythm go on by it. Those without one go on as often as they came, unless they have ceased.

    One alone without a rhythm is not expected again, but not impossible.
    """
    long = seen.long
    if not long:
        return []
    each_s = fmean(gap.seconds for gap in long) - seen.usual_s
    rhythm = _rhythm([gap.step for gap in long], done)
    if rhythm:
        left = max(0, steps + 1 - long[-1].step) // rhythm
        return [_expected(left, each_s, SEEN if len(long) > 1 else 1.0)]
    if seen.usual_s and long[-1].step <= seen.within[len(seen.within) // 2].step:
        return []
    left = round(max(0, steps - done) * len(long) / len(seen.within))
    often = left if len(long) > 1 else 0
    return [Pauses(left=often, each_s=each_s, doubt_s=left * each_s / len(long) ** 0.5)]


def _expected(left: int, each_s: float, doubt: float) -> Pauses:
    """`doubt`: how far one may be off, as a share of it."""
    return Pauses(left=left, each_s=each_s, doubt_s=left * each_s * doubt)


def _usual_end(pauses: Sequence[float]) -> float:
    """The mean, since not every epoch is evaluated or saved; without the first where it alone had a warm-up."""
    rest = pauses[1:]
    return fmean(rest if len(rest) > 1 and pauses[0] > CLEAR * max(rest) else pauses)


def _rhythm(paused_before: Sequence[int], done: int) -> int | None:
    """After how many steps a pause comes, when they come regularly and none is overdue."""
    between = [later - one for one, later in pairwise(paused_before)] or _since_the_start(paused_before[0])
    if not between or max(between) - min(between) > 1:
        return None
    every = round(median(between))
    return every if every and paused_before[-1] + every > done else None


def _since_the_start(paused_before: int) -> list[int]:
    """Seen once, after a round number of steps, it comes again after as many; after any other, by chance."""
    steps = paused_before - 1
    return [steps] if steps % ROUND in (0, 1) else []
