"""What is learnt of how long spot lasts."""

import pytest

from anygpu.plan.spot.availability import PRIOR_WEIGHT, AvailabilityInterval, SpotAvailability, prior_hazard

LONG = 1000.0


def spell(record: str) -> AvailabilityInterval:
    found = AvailabilityInterval()
    for look in record:
        found = found.observe(look == "1")
    return found


def test_a_zone_that_is_not_available_has_nothing_to_come() -> None:
    assert spell("110").outlook(LONG).expected_ticks == 0


def test_the_longer_a_run_has_lasted_the_longer_it_is_expected_to_last() -> None:
    expected = [spell("1" * age).outlook(LONG).expected_ticks for age in (1, 2, 4, 8, 16, 32)]
    assert expected == sorted(expected)
    assert expected[0] > 1


def test_a_zone_that_flapped_is_expected_to_flap() -> None:
    assert spell("10" * 40 + "1").outlook(LONG).expected_ticks < 2 < spell("1").outlook(LONG).expected_ticks


def test_a_zone_that_loses_machines_young_is_trusted_less_at_every_age() -> None:
    assert spell("10" * 10 + "1" * 20).hazard > spell("1" * 20).hazard


def test_a_zone_that_kept_its_last_machine_long_is_trusted_with_a_new_one() -> None:
    assert spell("1" * 60 + "01").hazard < spell("1").hazard / 2


def test_before_anything_was_seen_hazards_are_as_assumed() -> None:
    assert spell("1").hazard == prior_hazard(1)
    assert spell("11").hazard == pytest.approx(
        prior_hazard(2) * PRIOR_WEIGHT / (PRIOR_WEIGHT + prior_hazard(1))
    )


def test_the_outlook_is_what_hazards_tick_by_tick_give() -> None:
    """Summed in strides that grow, it is as good as the sum over every tick."""
    for record in ("1", "1" * 12, "10" * 5 + "111"):
        found = spell(record)
        ticks, through, ahead = 0.0, 1.0, found
        for _ in range(300):
            ticks += through
            through *= 1 - ahead.hazard
            ahead = ahead.observe(continues=True)
        outlook = found.outlook(300)
        assert outlook.expected_ticks == pytest.approx(ticks, rel=0.02)
        assert outlook.survival == pytest.approx(through, abs=0.01)


def test_an_outlook_is_never_longer_than_was_asked_for() -> None:
    calm = spell("1" * 500)
    assert [calm.outlook(most).expected_ticks <= most for most in (0.0, 0.25, 1.0, 2.5, 40.0)] == [True] * 5
    assert calm.outlook(0.25).expected_ticks == 0.25
    assert calm.outlook(0).survival == 1


def test_what_is_there_at_the_first_look_is_taken_to_have_been_there_for_a_while() -> None:
    found, fresh = (
        SpotAvailability.initial("a", 600.0).observe("a"),
        SpotAvailability.initial("a", 600.0).observe("").observe("a"),
    )
    assert found.zones["a"].hazard < fresh.zones["a"].hazard


def test_returns_are_counted_only_after_there_was_nothing_anywhere() -> None:
    availability = SpotAvailability.initial("ab", 0.001)
    for look in ("a", "ab", "b", "", "a", "", "", "b"):
        availability = availability.observe(look)
    assert (availability.outage.ends, availability.ticks) == pytest.approx((2, 8), rel=1e-5)


def test_spot_that_always_came_back_soon_is_expected_back_soon() -> None:
    short, long = SpotAvailability.initial("a", 600.0), SpotAvailability.initial("a", 600.0)
    for _ in range(10):
        short, long = short.observe("a").observe(""), long.observe("a")
        for _ in range(10):
            long = long.observe("")
    assert short.outage.hazard > 2 * long.outage.hazard


def test_what_was_seen_eight_hours_ago_counts_half() -> None:
    availability = SpotAvailability.initial("a", 3600.0).observe("").observe("a")
    for _ in range(8):
        availability = availability.observe("a")
    assert availability.outage.ends == pytest.approx(0.5)
