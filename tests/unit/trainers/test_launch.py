"""The processes of a training: which of several failures is the cause."""

import pytest

from anygpu.trainers.launch import rank_at_fault


@pytest.mark.parametrize(
    ("codes", "rank"),
    [
        ([None, None], None),
        ([0, None], None),
        ([0, 0], None),
        ([1, None], 0),
        ([None, 1], 1),
        ([1, -9], 1),  # a killed process comes before one that lost its connection to it
        ([1, 2], 1),  # and so does one that says what is wrong
        ([2, -9], 1),
        ([1, 1], 0),
    ],
)
def test_the_rank_at_fault_is_the_one_that_others_failed_after(
    codes: list[int | None], rank: int | None
) -> None:
    assert rank_at_fault(codes) == rank
