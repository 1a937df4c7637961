"""Quantities of Kubernetes."""

import pytest

from anygpu.backends.kubernetes.quantities import fitting_count, format_quantity, parse_quantity, sum_amounts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5), ("2", 2), ("16Gi", 16 * 2**30), ("1e3", 1000), ("3T", 3e12), ("0.5", 0.5), (4, 4),
        ("", 0), ("many", 0), ("1Zi", 0), ("1.2.3", 0),
    ],
)  # fmt: skip
def test_quantities_are_numbers_and_nonsense_is_nothing(text: object, value: float) -> None:
    assert parse_quantity(text) == value


def test_fractions_are_written_in_thousandths() -> None:
    assert [format_quantity(value) for value in (2.0, 0.5, 1.25)] == ["2", "500m", "1250m"]


def test_the_scarcest_resource_limits_how_often_something_fits() -> None:
    free = {"cpu": 8.0, "nvidia.com/gpu": 1.0}
    assert fitting_count(free, {"cpu": 2.0, "nvidia.com/gpu": 1.0}) == (1, "nvidia.com/gpu")
    assert fitting_count(free, {"cpu": 2.0, "memory": 1.0}) == (0, "memory")
    assert fitting_count({"cpu": -3.0}, {"cpu": 1.0}) == (0, "cpu")


def test_sums_have_every_resource() -> None:
    assert sum_amounts([{"cpu": 1.0}, {"cpu": 2.0, "memory": 5.0}]) == {"cpu": 3.0, "memory": 5.0}
