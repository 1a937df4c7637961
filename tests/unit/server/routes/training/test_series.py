"""Which attempts of a job are in an answer, and how its points are divided among them."""

import pytest

from anygpu.events.offers import Offer
from anygpu.events.view import AttemptView
from anygpu.server.routes.training.series import (
    CLOCK_TOLERANCE_MS,
    MAX_NAMES,
    MAX_POINTS_PER_ANSWER,
    attempts_between,
    point_shares,
)

DAY_MS = 24 * 3_600_000


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


def an_attempt(number: int, *, ended: bool = True) -> AttemptView:
    """Return an attempt that was launched on day `number`, and ended a day later."""
    return AttemptView(
        number=number,
        name="",
        offer=Offer(backend="local"),
        ticket_sha256="",
        launching_at_ms=number * DAY_MS,
        ended_at_ms=(number + 1) * DAY_MS if ended else None,
    )


def test_attempts_of_another_time_are_not_read_for_their_telemetry() -> None:
    attempts = [an_attempt(1), an_attempt(2), an_attempt(3, ended=False)]
    assert attempts_between(attempts, None, None) == attempts
    assert attempts_between(attempts, 10 * DAY_MS, None) == attempts[2:]
    assert attempts_between(attempts, None, DAY_MS) == attempts[:1]
    noon = 2 * DAY_MS + DAY_MS // 2
    assert attempts_between(attempts, noon, noon + 1000) == attempts[1:2]


def test_the_clock_of_a_machine_may_differ_from_that_of_the_server() -> None:
    attempts = [an_attempt(1), an_attempt(3)]
    assert attempts_between(attempts, 2 * DAY_MS + CLOCK_TOLERANCE_MS, None) == attempts
    assert attempts_between(attempts, None, 3 * DAY_MS - CLOCK_TOLERANCE_MS) == attempts
    assert attempts_between(attempts, None, 3 * DAY_MS - CLOCK_TOLERANCE_MS - 1) == attempts[:1]
