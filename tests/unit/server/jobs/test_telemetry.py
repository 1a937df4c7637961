"""Series of telemetry for charts."""

from typing import Any

from anygpu.server.jobs.telemetry import telemetry_series

GPU = {
    "index": 1,
    "name": "A10",
    "use": 0.5,
    "memory_used": 2**30,
    "memory_total": 2**34,
    "temperature_c": 60,
}


def sample(at: float, **changes: Any) -> dict[str, Any]:
    whole = {"at": at, "cpu": 0.25, "memory": {"used": 1, "total": 4}, "net": {"received": 7}, "gpus": [GPU]}
    return {**whole, **changes}


def series_of(*samples: dict[str, Any], max_count: int = 300) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in telemetry_series(samples, max_count=max_count)}


def test_each_measured_value_is_a_series_with_its_unit_and_limit() -> None:
    series = series_of(sample(1.0), sample(2.0, cpu=1))
    assert {name: each["unit"] for name, each in series.items()} == {
        "gpu1.utilisation": "fraction",
        "gpu1.memory_used": "bytes",
        "gpu1.temperature": "celsius",
        "cpu.utilisation": "fraction",
        "memory.used": "bytes",
        "network.received": "bytes_per_s",
    }
    assert series["cpu.utilisation"]["points"] == [(1.0, 0.25), (2.0, 1.0)]
    assert (series["gpu1.memory_used"]["limit"], series["gpu1.memory_used"]["label"]) == (2**34, "A10")


def test_values_of_the_wrong_type_are_left_out() -> None:
    odd: list[dict[str, Any]] = [
        {"at": "now", "cpu": 1.0},
        {"at": float("nan"), "cpu": 1.0},
        {"at": 1e300, "cpu": 1.0},
        {"at": 3.0, "cpu": "much", "memory": [1], "disk": None, "net": 3, "gpus": {"use": 1}},
        {"at": 4.0, "cpu": float("inf"), "memory": {"used": True}, "gpus": [None, 5, {"use": 10**400}]},
    ]
    assert series_of(*odd) == {}


def test_samples_are_sorted_and_downsampled_with_their_extremes() -> None:
    samples = [sample(float(at), cpu=0.9 if at == 70 else 0.1) for at in range(200)]
    samples.reverse()
    points = series_of(*samples, max_count=20)["cpu.utilisation"]["points"]
    assert len(points) <= 20
    assert (points[0][0], points[-1][0]) == (0.0, 199.0)
    assert (70.0, 0.9) in points
