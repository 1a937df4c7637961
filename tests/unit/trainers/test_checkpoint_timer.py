"""When a training saves: often enough, and for at most one part in a hundred of its time."""

import pytest

from anygpu.trainers.contract import CheckpointTimer


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def saves(
    cadence: CheckpointTimer, clock: Clock, *, until_s: float, cost_s: float, best_every_s: float = 0
) -> list[float]:
    """A training of steps of one second; when it saved."""
    found: list[float] = []
    best_at = best_every_s
    while clock.now_s < until_s:
        clock.now_s += 1
        if best_every_s and clock.now_s >= best_at:
            best_at += best_every_s
            with cadence.standstill(to_resume=False):
                clock.now_s += 0.1
        if cadence.is_due():
            found.append(clock.now_s)
            with cadence.standstill():
                clock.now_s += cost_s
    return found


@pytest.mark.parametrize("cost_s", [0.1, 1.0, 3.0])
def test_saving_takes_one_part_in_a_hundred_of_the_time(cost_s: float) -> None:
    clock = Clock()
    cadence = CheckpointTimer(None, clock)
    saves(cadence, clock, until_s=10_000, cost_s=cost_s)
    training_s, stood_s = cadence.spent()
    assert 0.008 < stood_s / training_s < 0.0105


def test_an_interval_that_was_asked_for_is_kept() -> None:
    clock = Clock()
    assert saves(CheckpointTimer(60, clock), clock, until_s=240, cost_s=0) == [60, 120, 180, 240]


def test_best_weights_of_every_epoch_do_not_put_checkpoints_off() -> None:
    clock = Clock()
    assert len(saves(CheckpointTimer(60, clock), clock, until_s=600, cost_s=0.1, best_every_s=20)) >= 9


def test_best_weights_and_checkpoints_together_keep_to_their_share() -> None:
    clock = Clock()
    cadence = CheckpointTimer(None, clock)
    found = saves(cadence, clock, until_s=2000, cost_s=0.3, best_every_s=20)
    training_s, stood_s = cadence.spent()
    assert stood_s <= 0.0102 * training_s
    assert len(found) > 20


def test_checkpoints_come_also_where_best_weights_alone_cost_more_than_the_share() -> None:
    clock = Clock()
    found = saves(CheckpointTimer(None, clock), clock, until_s=2000, cost_s=0.3, best_every_s=2)
    assert 20 < len(found) < 30


def test_a_short_training_is_saved_once_early() -> None:
    clock = Clock()
    assert saves(CheckpointTimer(None, clock), clock, until_s=20, cost_s=0.3) == [5]
