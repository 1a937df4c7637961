"""Days of a time zone as ranges of Unix time. Pure functions."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import NamedTuple

DAY_MS = 86_400_000
HOURS_24 = 24 * 60  # minutes
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


def parse_timezone(text: str) -> tzinfo | None:
    """Return the time zone for a name such as `Europe/Berlin` or an offset such as `+02:00`; None if it is neither.

    A plus sign that was not escaped in an address arrives as a space, and is accepted.
    """
    text = f"+{text[1:]}" if text.startswith(" ") else text
    if text in ("UTC", "Z", ""):
        return UTC
    match = _OFFSET.fullmatch(text)
    if match is None:
        return _named_timezone(text)
    minutes = int(match[2]) * 60 + int(match[3])
    if minutes >= HOURS_24:
        return None
    return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes))


def _named_timezone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # an unknown name, or one that is not a name but a path
        return None


class Stretch(NamedTuple):
    """A range of Unix time in which the time zone has the same offset from UTC."""

    from_ms: int
    to_ms: int
    offset_ms: int


@dataclass(frozen=True, slots=True)
class DayRange:
    """Consecutive days of a time zone: from `first` to `last`, both included."""

    first: date
    last: date
    zone: tzinfo

    @property
    def from_ms(self) -> int:
        return midnight_ms(self.first, self.zone)

    @property
    def to_ms(self) -> int:
        """The end of the last day."""
        return midnight_ms(self.last + timedelta(days=1), self.zone)

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]

    def midnights(self) -> list[int]:
        """Return when each day begins, and when the last one ends."""
        return [*(midnight_ms(day, self.zone) for day in self.days), self.to_ms]

    def stretches(self) -> Iterator[Stretch]:
        """Yield the parts of the range in which the offset from UTC does not change, such as summer and winter."""
        begins_ms = self.from_ms
        for start_ms, end_ms in pairwise(self.midnights()):
            if _offset_ms(start_ms, self.zone) != _offset_ms(end_ms, self.zone):
                change_ms = _change_ms(start_ms, end_ms, self.zone)
                yield Stretch(begins_ms, change_ms, _offset_ms(start_ms, self.zone))
                begins_ms = change_ms
        if begins_ms < self.to_ms:
            yield Stretch(begins_ms, self.to_ms, _offset_ms(begins_ms, self.zone))


class DayFinder:
    """Finds the day of a time in a range of days."""

    def __init__(self, days: DayRange) -> None:
        self._days, self._midnights = days, days.midnights()

    def parts(self, from_ms: int, to_ms: int) -> Iterator[tuple[int, int, int]]:
        """Split a range of time at midnight. Yield each part with its day, as a number of days since 1970."""
        begin, end = max(from_ms, self._midnights[0]), min(to_ms, self._midnights[-1])
        while begin < end:
            index = bisect_right(self._midnights, begin) - 1
            until = min(end, self._midnights[index + 1])
            yield day_number(self._days.first) + index, begin, until
            begin = until


def midnight_ms(day: date, zone: tzinfo) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def local_day(at_ms: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(at_ms / 1000, zone).date()


def day_number(day: date) -> int:
    """Return the number of days since 1970."""
    return day.toordinal() - date(1970, 1, 1).toordinal()


def numbered_day(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number)


def month_of(day: date, zone: tzinfo) -> DayRange:
    """Return the days of the month that contains `day`."""
    first = day.replace(day=1)
    return DayRange(first, (first + timedelta(days=31)).replace(day=1) - timedelta(days=1), zone)


def _offset_ms(at_ms: int, zone: tzinfo) -> int:
    offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset()
    return 0 if offset is None else round(offset.total_seconds() * 1000)


def _change_ms(start_ms: int, end_ms: int, zone: tzinfo) -> int:
    """Return when the offset from UTC changes between two times, by bisection to the second."""
    before = _offset_ms(start_ms, zone)
    low, high = start_ms // 1000, -(-end_ms // 1000)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset_ms(middle * 1000, zone) == before else (low, middle)
    return high * 1000
