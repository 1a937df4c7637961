"""Young and Daly's rule against what happens when a thousand trainings are played through."""

import random
from math import inf, isclose, sqrt

from anygpu.plan.checkpointing import expected_loss_s, expected_s, interval_s


def played(
    chance: random.Random, *, work_s: float, save_s: float, every_s: float, mtbf_s: float, restart_s: float
) -> float:
    """One training on machines that die: how long it took."""
    now = done = 0.0
    dies = chance.expovariate(1 / mtbf_s)
    while done < work_s:
        piece = min(every_s, work_s - done)
        if now + piece + save_s <= dies:
            now, done = now + piece + save_s, done + piece
        else:
            now = dies + restart_s
            dies = now + chance.expovariate(1 / mtbf_s)
    return now


def test_the_expected_time_is_the_mean_of_what_happens() -> None:
    chance = random.Random(5)
    facts = {"work_s": 50_000.0, "save_s": 20.0, "every_s": 600.0, "restart_s": 120.0}
    times = [played(chance, mtbf_s=7200, **facts) for _ in range(2000)]
    assert isclose(sum(times) / 2000, expected_s(between_failures_s=7200, **facts), rel_tol=0.03)


def test_no_other_pause_between_checkpoints_wastes_noticeably_less() -> None:
    facts = {"save_s": 30.0, "between_failures_s": 10_000.0, "restart_s": 100.0}
    best = expected_loss_s(1e6, every_s=interval_s(30, 10_000), **facts)
    others = [expected_loss_s(1e6, every_s=every, **facts) for every in range(100, 5000, 50)]
    assert best <= 1.005 * min(others)


def test_it_is_youngs_rule_when_saving_is_quick() -> None:
    assert isclose(interval_s(1, 100_000), sqrt(2 * 1 * 100_000), rel_tol=0.02)


def test_where_nothing_dies_nothing_needs_to_be_saved() -> None:
    assert interval_s(10, inf) == inf
    assert expected_s(100, save_s=10, every_s=inf, between_failures_s=inf, restart_s=5) == 100


def test_what_is_never_done_is_still_a_number() -> None:
    """Somebody who saves by calls of his own says `every: 1000d`."""
    facts = {"save_s": 5.0, "between_failures_s": 21_600.0, "restart_s": 180.0}
    never_s = expected_s(1e9, every_s=1000 * 86_400.0, **facts)
    assert 1e20 < never_s < 1e30
