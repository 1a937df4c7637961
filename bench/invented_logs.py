"""Step logs of troubles that trainings have, invented from a seed: `python -m bench.invented_logs`.

Recorded logs are of one quiet machine; these have what others have. Each kind is one trouble, drawn over a range of
sizes, and is scored by itself: how many runs are predicted within 15 % after 15 steps, and how many intervals held.
"""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from bench.accuracy import WITHIN, Log, Said, first_steps

Gaps = list[float]


def steady(chance: random.Random) -> Log:
    """Steps that differ by a few percent."""
    return _log(_steps(chance, noise=chance.uniform(0, 0.1)))


def noisy(chance: random.Random) -> Log:
    """Steps that differ by a fifth or so: batches of different lengths."""
    return _log(_steps(chance, noise=chance.uniform(0.1, 0.3)))


def slow_start(chance: random.Random) -> Log:
    """Compilation and caches: up to nine steps that are longer, each less than the one before it."""
    gaps = _steps(chance, noise=0.05)
    first, many = chance.uniform(1.5, 20), chance.randrange(3, 10)
    for at in range(many):
        gaps[at] *= 1 + (first - 1) * (1 - at / many) ** 2
    return _log(gaps)


def compiled_again(chance: random.Random) -> Log:
    """One long step after the warm-up, because something had another shape; never again."""
    gaps = _steps(chance, noise=0.05)
    gaps[chance.randrange(3, 8)] *= chance.uniform(5, 40)
    return _log(gaps)


def stalled_late(chance: random.Random) -> Log:
    """The same, so late that it may as well come again; what comes after ten steps is taken for a rhythm of ten."""
    gaps = _steps(chance, noise=0.05)
    gaps[chance.randrange(9, 15)] *= chance.uniform(5, 40)
    return _log(gaps)


def stalled_loader(chance: random.Random) -> Log:
    """Every few steps one waits for data."""
    gaps = _steps(chance, noise=0.08)
    every, longer = chance.randrange(2, 9), chance.uniform(2, 10)
    first = chance.randrange(every)
    return _log([gap * (longer if at % every == first else 1) for at, gap in enumerate(gaps)])


def paused_twice(chance: random.Random) -> Log:
    """A checkpoint or an evaluation every five or seven steps, which nobody announced."""
    return _paused(chance, chance.choice([5, 6, 7]))


def paused_once(chance: random.Random) -> Log:
    """The same every ten steps, which fifteen of them show once."""
    return _paused(chance, 10, first=chance.randrange(2))


def _paused(chance: random.Random, every: int, first: int = 0) -> Log:
    gaps, pause = _steps(chance, noise=0.08), chance.uniform(0.3, 3) * every
    usual = sorted(gaps)[len(gaps) // 2]
    return _log(
        [gap + (pause * usual if at > 1 and at % every == first else 0) for at, gap in enumerate(gaps)]
    )


def unseen_evaluation(chance: random.Random) -> Log:
    """Epochs longer than fifteen steps, each with an evaluation after it."""
    return _epochs(chance, chance.randrange(16, 300), 1)


def seen_evaluation(chance: random.Random) -> Log:
    """Epochs of a few steps, each with an evaluation after it."""
    return _epochs(chance, chance.randrange(4, 13), 1)


def rare_evaluation(chance: random.Random) -> Log:
    """Epochs of two or three steps, evaluated every second or third."""
    return _epochs(chance, chance.choice([2, 3]), chance.choice([2, 3]))


def _epochs(chance: random.Random, per_epoch: int, between: int) -> Log:
    gaps = _steps(chance, noise=0.08, fewest=max(60, 2 * per_epoch))
    gaps = gaps[: len(gaps) // per_epoch * per_epoch]
    pause = chance.uniform(0.02, 0.25) * per_epoch * between * sorted(gaps)[len(gaps) // 2]
    ends = range(per_epoch * between, len(gaps), per_epoch * between)
    for at in ends:
        gaps[at] += pause
    return _log(gaps, steps_per_epoch=per_epoch, after_s=pause)


def only_epochs(chance: random.Random) -> Log:
    """A log of epochs alone; every few of them a longer one, which saves or evaluates."""
    gaps = _steps(chance, noise=0.04, fewest=20, most=300)
    every, longer = chance.randrange(2, 8), chance.uniform(1, 8)
    return _log(
        [gap * (longer if at % every == every - 1 else 1) for at, gap in enumerate(gaps)], steps_per_epoch=1
    )


def heavy_tail(chance: random.Random) -> Log:
    """Now and then, without a rhythm, a step is several times as long: shared disks, other people's work."""
    gaps, often = _steps(chance, noise=0.08), chance.uniform(0.02, 0.08)
    return _log([gap * (1 + chance.paretovariate(1.5) if chance.random() < often else 1) for gap in gaps])


def throttled(chance: random.Random) -> Log:
    """A machine that gets hot within the first steps, and stays slower."""
    gaps, at, slower = _steps(chance, noise=0.03), chance.randrange(5, 11), chance.uniform(1.2, 1.8)
    return _log([gap * (slower if step >= at else 1) for step, gap in enumerate(gaps)])


def drained_buffer(chance: random.Random) -> Log:
    """Data read ahead makes the first steps short; then the loader sets the pace."""
    gaps, at, quick = _steps(chance, noise=0.06), chance.randrange(4, 10), chance.uniform(0.2, 0.7)
    return _log([gap * (quick if step < at else 1) for step, gap in enumerate(gaps)])


def drifting(chance: random.Random) -> Log:
    """Speed that moves by up to a tenth over the run."""
    gaps, far = _steps(chance, noise=0.05), chance.uniform(-0.1, 0.1)
    return _log([gap * (1 + far * step / len(gaps)) for step, gap in enumerate(gaps)])


def milliseconds(chance: random.Random) -> Log:
    """Steps so short that fifteen of them see one mood of the machine, which changes every half a second."""
    gaps = [gap / 1000 for gap in _steps(chance, noise=0.1, fewest=500, most=5000)]
    mood, now_s, found = chance.lognormvariate(0, 0.12), 0.0, []
    for gap in gaps:
        if now_s > 0.5:
            mood, now_s = chance.lognormvariate(0, 0.12), 0.0
        found.append(gap * mood)
        now_s += gap * mood
    return _log(found)


def reported_together(chance: random.Random) -> Log:
    """Output that is written by the handful: several steps are told of at once."""
    log, handful = _log(_steps(chance, noise=0.08)), chance.randrange(2, 6)
    last = log.steps - 1
    times = [log.times_s[min(last, at // handful * handful + handful - 1)] for at in range(log.steps)]
    return replace(log, times_s=times)


def growing(chance: random.Random) -> Log:
    """Rounds of boosting that ask all trees before them, and say so."""
    gaps, each = _steps(chance, noise=0.04, fewest=30, most=300), chance.uniform(0.001, 0.012)
    return _log([gap * (1 + each * at) for at, gap in enumerate(gaps)], steps_per_epoch=1, grows=True)


KINDS: Sequence[Callable[[random.Random], Log]] = (
    steady,
    noisy,
    slow_start,
    compiled_again,
    stalled_late,
    stalled_loader,
    paused_twice,
    paused_once,
    unseen_evaluation,
    seen_evaluation,
    rare_evaluation,
    only_epochs,
    heavy_tail,
    throttled,
    drained_buffer,
    drifting,
    milliseconds,
    reported_together,
    growing,
)


def _steps(chance: random.Random, *, noise: float, fewest: int = 60, most: int = 3000) -> Gaps:
    usual = chance.uniform(0.2, 5)
    steps = round(fewest * (most / fewest) ** chance.random())
    return [usual * chance.lognormvariate(0, noise) for _ in range(steps)]


def _log(gaps: Gaps, *, steps_per_epoch: int | None = None, after_s: float = 0, grows: bool = False) -> Log:
    """The first two steps are three times as long, as they are nearly everywhere."""
    times = [*accumulate(gap * (3 if at < 2 else 1) for at, gap in enumerate(gaps))]
    return Log(
        workload="invented",
        steps=len(times),
        times_s=times,
        total_s=times[-1] + after_s,
        steps_per_epoch=steps_per_epoch,
        grows=grows,
    )


def invented(kind: Callable[[random.Random], Log], *, runs: int, seed: int = 0) -> list[Said]:
    """What is predicted of so many runs of one kind."""
    chance = random.Random(f"{kind.__name__} {seed}")
    return first_steps([kind(chance) for _ in range(runs)])


def shares(said: Sequence[Said]) -> tuple[float, float]:
    """Of predictions: how many were within 15 %, and how many intervals held the truth."""
    within = sum(each.time_error <= WITHIN for each in said)
    return within / len(said), sum(each.held for each in said) / len(said)


def rows(runs: int, seed: int) -> Iterator[str]:
    for kind in KINDS:
        said = invented(kind, runs=runs, seed=seed)
        within, held = shares(said)
        width = sorted(each.span.high / each.span.low for each in said)[len(said) // 2]
        yield f"{kind.__name__:18} within 15 %: {within:5.0%}   held: {held:5.0%}   median width x{width:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(*rows(asked.runs, asked.seed), sep="\n")


if __name__ == "__main__":
    main()
