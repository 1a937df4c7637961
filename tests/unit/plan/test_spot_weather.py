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


def test_a_zone_that_loses_machines_young_is_trusted_less_at_every_age() -> None:
    assert zone("10" * 10 + "1" * 20).ticks_to_come() < zone("1" * 20).ticks_to_come()


def test_what_is_there_at_the_first_look_is_taken_to_have_been_there_for_a_while() -> None:
    found, fresh = Weather.unknown("a", 600.0).seen("a"), Weather.unknown("a", 600.0).seen("").seen("a")
    assert found.lasts_s("a") > fresh.lasts_s("a") > 600.0


def test_returns_are_counted_only_after_there_was_nothing_anywhere() -> None:
    weather = Weather.unknown("ab", 0.001)
    for look in ("a", "ab", "b", "", "a", "", "", "b"):
        weather = weather.seen(look)
    assert (weather.returns, weather.ticks) == pytest.approx((2, 8), rel=1e-5)


def test_what_was_seen_six_hours_ago_counts_half() -> None:
    weather = Weather.unknown("a", 3600.0).seen("").seen("a")
    for _ in range(6):
        weather = weather.seen("a")
    assert weather.returns == pytest.approx(0.5)
