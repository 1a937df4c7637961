import pytest

from anygpu.cli.terminal import formatting


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0s"),
        (8.25, "8.2s"),
        (42, "42s"),
        (200, "3m20s"),
        (7500, "2h05m"),
        (273600, "3d4h"),
        (None, "-"),
    ],
)
def test_durations_are_formatted(seconds: float | None, said: str) -> None:
    assert formatting.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.123456, "0.1235"), (3, "3"), (3.0, "3"), (1e-7, "1e-07"), ("NaN", "NaN"), (float("inf"), "inf")],
)
def test_metrics_have_four_significant_digits(value: object, said: str) -> None:
    assert formatting.metric(value) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB"), (None, "-")]
)
def test_sizes_have_binary_units(count: int | None, said: str) -> None:
    assert formatting.size(count) == said


@pytest.mark.parametrize(
    ("micros", "said"), [(0, "$0"), (None, "$0"), (1234, "$0.0012"), (12_345_678, "$12.35")]
)
def test_small_amounts_have_more_decimals(micros: int | None, said: str) -> None:
    assert formatting.money(micros) == said


def test_seconds_between_two_times_do_not_use_the_clock() -> None:
    assert formatting.seconds_since("2030-01-01T00:00:00.000Z", "2030-01-01T00:01:30.500Z") == 90.5


def test_plural_depends_on_the_count() -> None:
    assert (formatting.plural(1, "file"), formatting.plural(2, "file")) == ("1 file", "2 files")


def test_a_truncated_text_ends_in_an_ellipsis() -> None:
    assert formatting.truncate("precision=0 recall=1", 20) == "precision=0 recall=1"
    assert formatting.truncate("precision=0 recall=1", 14) == "precision=0 r…"
