"""Durations, sizes, money and deadlines as people write them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.spec import units


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        (3600, 3600.0),
        ("3600", 3600.0),
        ("6h", 21600.0),
        ("90m", 5400.0),
        ("1h30m", 5400.0),
        ("1 h 30 min", 5400.0),
        ("1.5h", 5400.0),
        ("2 days", 172800.0),
        ("500ms", 0.5),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read_as_seconds(text: Any, expected_s: float) -> None:
    assert units.seconds(text) == expected_s


@pytest.mark.parametrize(
    "text", ["", "6x", "h", "1h-", "-5", -5, 0, True, None, [], float("nan"), "inf", 10**400, 1e300]
)
def test_what_is_no_duration_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        units.seconds(text)


@pytest.mark.parametrize(
    ("text", "expected_gib"),
    [
        (16, 16.0),
        ("16", 16.0),
        ("16GiB", 16.0),
        ("16Gi", 16.0),
        ("16G", 16.0),
        ("512MiB", 0.5),
        ("1T", 1024.0),
    ],
)
def test_a_size_is_read_as_gib(text: Any, expected_gib: float) -> None:
    assert units.gibibytes(text) == expected_gib


def test_gigabytes_are_a_little_less_than_gib() -> None:
    assert units.gibibytes("16GB") == 16e9 / 2**30


@pytest.mark.parametrize("text", ["", "16Q", "GiB", -1, 0, True, None, {}, float("inf"), "9" * 100])
def test_what_is_no_size_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="size"):
        units.gibibytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (10, 10_000_000),
        ("$10", 10_000_000),
        ("10.50", 10_500_000),
        (0.1, 100_000),
        ("10 USD", 10_000_000),
        (0, 0),
    ],
)
def test_money_is_read_as_whole_microdollars(text: Any, expected: int) -> None:
    assert units.microdollars(text) == expected


@pytest.mark.parametrize(
    "text", ["ten", "-1", -1, True, None, "1e3", "$", float("nan"), float("inf"), 1e17, 0.0000001]
)
def test_what_is_no_money_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match="dollar"):
        units.microdollars(text)


@given(st.integers(min_value=0, max_value=10**15))
def test_money_written_in_dollars_keeps_every_microdollar(micros: int) -> None:
    assert units.microdollars(f"${micros // 10**6}.{micros % 10**6:06d}") == micros


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(1, 59))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    assert (
        units.seconds(f"{days}d{hours}h{minutes}m{seconds}s")
        == days * 86400 + hours * 3600 + minutes * 60 + seconds
    )


def test_a_deadline_is_a_duration_or_an_instant() -> None:
    assert units.deadline("6h") == 21600.0
    assert units.deadline("2030-01-31T18:00:00Z") == datetime(2030, 1, 31, 18, tzinfo=UTC)


def test_an_instant_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset"):
        units.deadline("2030-01-31T18:00:00")


@given(
    st.one_of(
        st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.binary(), st.lists(st.integers())
    )
)
def test_any_value_is_parsed_or_refused_with_a_value_error(value: Any) -> None:
    for parse in (units.seconds, units.gibibytes, units.microdollars, units.deadline, units.instant):
        result: Any
        try:
            result = parse(value)
        except ValueError as error:
            result = str(error)
        assert isinstance(result, int | float | datetime) or result.startswith(("is ", "has "))
