import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anygpu.cli.terminal.chart import BLANK, Canvas, Curve, Curves, chart, side_by_side

numbers = st.floats(allow_nan=True, allow_infinity=True)


def dots(lines: list[str]) -> int:
    return sum(
        (ord(character) - BLANK).bit_count()
        for line in lines
        for character in line
        if ord(character) >= BLANK
    )


def test_a_falling_curve_goes_from_the_upper_left_to_the_lower_right() -> None:
    lines = chart("loss", [(0, 1.0), (1, 0.0)], width=12, height=2)
    assert lines == ["loss  0", "1┤⠉⠒⠢⢄⣀     ", "0┤     ⠉⠑⠢⠤⣀", "  0   step 1"]


def test_a_metric_without_points_says_so() -> None:
    assert chart("loss", [], width=40, height=3)[0] == "loss  (no points yet)"


def test_a_single_point_is_one_dot() -> None:
    assert dots(chart("loss", [(3, 0.5)], width=30, height=4)) == 1


def test_a_flat_curve_lies_in_the_middle() -> None:
    lines = chart("lr", [(0, 2.0), (9, 2.0)], width=20, height=3)
    assert dots([lines[2]]) > 0
    assert dots([lines[1], lines[3]]) == 0


def test_values_that_are_not_finite_are_skipped() -> None:
    lines = chart("loss", [(0, 1.0), (1, math.nan), (2, math.inf), (3, 0.5)], width=30, height=4)
    assert lines[0] == "loss  0.5"
    assert dots(lines) > 0


@settings(max_examples=300)
@given(st.lists(st.tuples(numbers, numbers), max_size=60), st.integers(12, 120), st.integers(2, 20))
def test_a_chart_never_exceeds_its_size(points: list[tuple[float, float]], width: int, height: int) -> None:
    lines = chart("m", points, width=width, height=height)
    assert len(lines) == height + 2
    assert max(len(line) for line in lines) <= max(width, 17)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (9, 0), (0, 7), (9, 7)])
def test_every_corner_of_a_canvas_can_be_dotted(x: int, y: int) -> None:
    canvas = Canvas(5, 2)
    canvas.dot(x, y)
    assert dots(list(canvas.rows())) == 1


def test_blocks_of_different_height_are_aligned() -> None:
    assert side_by_side([["a", "b"], ["c"]], width=3) == ["a    c", "b"]


def test_a_resumed_attempt_replaces_repeated_steps() -> None:
    curve = Curve()
    for step in (1, 2, 3, 4, 3, 4, 5):
        curve.add(step, step / 10)
    assert [step for step, _ in curve.points] == [1, 2, 3, 4, 5]


def test_a_long_curve_is_downsampled_and_keeps_its_ends() -> None:
    curve = Curve()
    for step in range(20_000):
        curve.add(step, 0.0)
    assert len(curve.points) <= 4000
    assert curve.points[0][0] == 0
    assert curve.points[-1][0] > 19_990


def test_losses_and_accuracies_are_charted_first() -> None:
    curves = Curves()
    curves.add_points([["lr", 1, 0.0, 0.1], ["val/accuracy", 1, 0.0, 0.5], ["train/loss", 1, 0.0, 2.0]])
    assert curves.shown_names() == ["train/loss", "val/accuracy", "lr"]
