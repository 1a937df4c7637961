"""Durations in the texts of a plan."""

from math import inf

import pytest

from anygpu.plan.offers.wording import describe_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (90, "90 s"),
        (150, "2 min 30 s"),
        (3600, "60 min"),
        (7524, "2 h 5 min"),
        (86_400, "24 h"),
        (200_000, "2 days 8 h"),
        (172_800, "2 days"),
        (inf, "any time"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert describe_duration(seconds) == text
