"""How the points of an answer are divided among the attempts of a job."""

import pytest

from anygpu.server.routes.training.series import MAX_NAMES, MAX_POINTS_PER_ANSWER, point_shares


def test_attempts_share_the_points_in_proportion_to_what_they_reported() -> None:
    assert point_shares([30_000, 10_000], 1000, limit=200_000, zoomed=False) == [750, 250]
    assert point_shares([39_999, 1], 1000, limit=200_000, zoomed=False) == [999, 100]


def test_each_attempt_has_all_points_of_a_range_of_steps() -> None:
    assert point_shares([30_000, 10_000], 1000, limit=200_000, zoomed=True) == [1000, 1000]


@pytest.mark.parametrize("zoomed", [False, True])
@pytest.mark.parametrize("attempts", [1, 30, 1000])
def test_an_answer_has_a_limited_number_of_points(attempts: int, zoomed: bool) -> None:
    limit = MAX_POINTS_PER_ANSWER // MAX_NAMES
    shares = point_shares([5000] * attempts, 20_000, limit=limit, zoomed=zoomed)
    assert limit // 2 < sum(shares) <= limit
    assert min(shares) >= 1


def test_without_attempts_there_is_nothing_to_share() -> None:
    assert point_shares([], 1000, limit=200_000, zoomed=False) == []
