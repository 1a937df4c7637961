"""What stands between steps: found in the gaps between them, and how many are to come. Pure.

A pause is announced when it stands where an epoch ends; any other is known by its rhythm, or by how often it came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from anygpu.plan.gaps import CLEAR, Seen

SEEN, TOLD = 0.15, 0.3  # how far a pause may be off that was seen here, or in other runs; a share of it
ONCE = 1.0  # the same of what was seen but once, and may never come again
# Of an epoch, where no evaluation was seen: a fifth of the data held back, and only the forward pass.
EVALUATION = 0.08


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Of one kind: how many are to come, how long one is, and how far that may be off, as a share."""

    left: int
    each_s: float
    doubt: float

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
        return [Pauses(left=left, each_s=max(0.0, each_s), doubt=SEEN)]
    if told_s is not None:
        return [Pauses(left=left, each_s=told_s, doubt=TOLD)]
    return [Pauses(left=left, each_s=EVALUATION * every * seen.usual_s, doubt=1.0)]


def unannounced(seen: Seen, *, done: int, steps: int) -> list[Pauses]:
    """Those with a rhythm go on by it. Those without one go on as often as they came, unless they have ceased."""
    long = seen.long
    if not long:
        return []
    each_s = fmean(gap.seconds for gap in long) - seen.usual_s
    rhythm = _rhythm([gap.step for gap in long], done)
    if rhythm:
        left = max(0, steps + 1 - long[-1].step) // rhythm
        return [Pauses(left=left, each_s=each_s, doubt=SEEN if len(long) > 1 else ONCE)]
    if seen.usual_s and long[-1].step <= seen.within[len(seen.within) // 2].step:
        return []
    left = round((steps - done) * len(long) / len(seen.within))
    return [Pauses(left=left, each_s=each_s, doubt=ONCE / len(long) ** 0.5)]


def _usual_end(pauses: Sequence[float]) -> float:
    """The mean, since not every epoch is evaluated or saved; without the first where it alone had a warm-up."""
    rest = pauses[1:]
    return fmean(rest if len(rest) > 1 and pauses[0] > CLEAR * max(rest) else pauses)


def _rhythm(paused_before: Sequence[int], done: int) -> int | None:
    """After how many steps a pause comes, when they come regularly and none is overdue.

    Trainings count from their beginning: what was seen once, after n steps, comes again after 2 n.
    """
    between = [later - one for one, later in pairwise(paused_before)] or [paused_before[0] - 1]
    every = round(median(between))
    is_regular = max(between) - min(between) <= 1
    return every if every and is_regular and paused_before[-1] + every > done else None
