"""Days of time zones as ranges of time."""

import itertools
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from anygpu.store.calendar import (
    DAY_MS,
    DayFinder,
    DayRange,
    day_number,
    local_day,
    month_of,
    numbered_day,
    parse_timezone,
)

BERLIN = ZoneInfo("Europe/Berlin")
SANTIAGO = ZoneInfo("America/Santiago")  # clocks change at midnight


@pytest.mark.parametrize(
    ("text", "hours"),
    [("UTC", 0), ("Z", 0), ("", 0), ("+02:00", 2), (" 02:00", 2), ("-0330", -3.5), ("+14:00", 14)],
)
def test_offsets_are_read(text: str, hours: float) -> None:
    zone = parse_timezone(text)
    assert zone is not None
    assert zone.utcoffset(None) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "text", ["Nowhere", "Europe", "../x", "/etc/localtime", "+24:00", "2", "a\0b", "+2:00"]
)
def test_what_is_not_a_time_zone_is_refused(text: str) -> None:
    assert parse_timezone(text) is None


def test_a_month_ends_before_the_next() -> None:
    assert month_of(date(2026, 12, 31), UTC) == DayRange(date(2026, 12, 1), date(2026, 12, 31), UTC)
    assert month_of(date(2024, 2, 3), UTC).last == date(2024, 2, 29)


@pytest.mark.parametrize("zone", [UTC, BERLIN, SANTIAGO, ZoneInfo("Australia/Lord_Howe")])
def test_stretches_agree_with_the_calendar(zone: tzinfo) -> None:
    days = DayRange(date(2026, 1, 1), date(2026, 12, 31), zone)
    stretches = list(days.stretches())
    assert stretches[0].from_ms == days.from_ms
    assert stretches[-1].to_ms == days.to_ms
    for before, after in itertools.pairwise(stretches):
        assert before.to_ms == after.from_ms
    for stretch in stretches:
        for at_ms in range(stretch.from_ms, stretch.to_ms, 7_700_000):
            assert numbered_day((at_ms + stretch.offset_ms) // DAY_MS) == local_day(at_ms, zone)


@pytest.mark.parametrize("zone", [UTC, BERLIN, SANTIAGO])
def test_a_range_is_split_at_midnight_without_gaps(zone: tzinfo) -> None:
    days = DayRange(date(2026, 3, 1), date(2026, 5, 1), zone)
    begin = round(datetime(2026, 2, 20, 5, tzinfo=UTC).timestamp() * 1000)
    parts = list(DayFinder(days).parts(begin, days.to_ms - 12_345))
    assert parts[0][1] == days.from_ms
    assert parts[-1][2] == days.to_ms - 12_345
    for (day, from_ms, to_ms), after in itertools.pairwise(parts):
        assert after[:2] == (day + 1, to_ms)
        assert local_day(from_ms, zone) == numbered_day(day)
    assert parts[0][0] == day_number(days.first)
