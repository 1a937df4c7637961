"""What is learnt of how long spot lasts."""

import pytest

from anygpu.plan.spot_weather import Weather, Zone


def zone(record: str) -> Zone:
    found = Zone()
    for look in record:
        found = found.seen(look == "1")
    return found


def test_a_zone_that_is_not_available_has_nothing_to_come() -> None:
    assert zone("110").ticks_to_come() == 0


def test_the_longer_a_run_has_lasted_the_longer_it_is_expected_to_last() -> None:
    expected = [zone("1" * age).ticks_to_come() for age in (1, 2, 4, 8, 16, 32)]
    assert expected == sorted(expected)
    assert expected[0] > 1


def test_a_zone_that_flapped_is_expected_to_flap() -> None:
    assert zone("10" * 40 + "1").ticks_to_come() < 1.5 < zone("1").ticks_to_come()


def test_hazards_give_the_expectation_they_stand_for() -> None:
    """With one hazard at all ages the expectation is its inverse."""
    even = Zone(age=1, looks=(10**9,) * 7, ends=(10**8,) * 7)
    assert even.ticks_to_come() == pytest.approx(10, rel=1e-3)


def test_returns_are_counted_only_after_there_was_nothing_anywhere() -> None:
    weather = Weather.unknown("ab", 600.0)
    for look in ("a", "ab", "b", "", "a", "", "", "b"):
        weather = weather.seen(look)
    assert weather.returns == 2
    assert weather.ticks == 8
