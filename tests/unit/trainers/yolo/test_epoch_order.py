"""The samples of each step of an epoch, for one process and for the processes of several GPUs."""

from dataclasses import dataclass
from typing import Any

import pytest

from anygpu.trainers.ranks import SingleProcess
from anygpu.trainers.yolo.dataset import EpochOrder


@dataclass
class Rank(SingleProcess):
    rank: int
    size: int


def parts(count: int, samples: int, batch_size: int, **given: Any) -> list[list[int]]:
    """Return the samples of each rank, in order."""
    orders = [
        EpochOrder(samples, batch_size, seed=3, ranks=Rank(rank, count), **given) for rank in range(count)
    ]
    parts = [list(order) for order in orders]
    assert [len(order) for order in orders] == [len(part) for part in parts] or "skip" in given
    return parts


def test_one_process_gets_all_samples_in_another_order_each_epoch() -> None:
    order = EpochOrder(10, 4, seed=3)
    first, second = list(order), list(order)
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert first == order.of(0)
    assert order.batch(0, 1) == first[4:8]
    assert order.batch(0, 2) == first[8:]


def test_a_resumed_epoch_begins_with_the_next_batch() -> None:
    whole, resumed = EpochOrder(10, 4, seed=3), EpochOrder(10, 4, seed=3, epoch=1, skip=2)
    assert list(resumed) == whole.of(1)[8:]
    assert list(resumed) == whole.of(2)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_ranks_share_each_batch(count: int) -> None:
    whole = EpochOrder(24, 8, seed=3).of(0)
    each, size = parts(count, 24, 8), 8 // count
    for number in range(3):
        batch = [index for part in each for index in part[number * size : (number + 1) * size]]
        assert batch == whole[number * 8 : (number + 1) * 8]


@pytest.mark.parametrize(("samples", "last"), [(17, 1), (18, 1), (19, 2), (21, 3)])
def test_a_last_batch_that_cannot_be_divided_is_filled_from_the_beginning(samples: int, last: int) -> None:
    first, second = parts(2, samples, 8)
    assert len(first) == len(second) == 8 + last
    whole = EpochOrder(samples, 8, seed=3).of(0)
    assert [*first[8:], *second[8:]] == [*whole[16:], *whole][: 2 * last]


def test_more_ranks_than_samples_repeat_them() -> None:
    assert parts(4, 1, 8) == [[0], [0], [0], [0]]


def test_the_ranks_resume_with_their_parts_of_the_next_batch() -> None:
    assert parts(2, 17, 8, skip=1) == [part[4:] for part in parts(2, 17, 8)]
