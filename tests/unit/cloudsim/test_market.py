import json
from pathlib import Path

import pytest

from anygpu.cloudsim.market import CapacityTrace, SimSpotMarket, random_trace, read_trace
from anygpu.cloudsim.vendor import SimMachineType

KIND = SimMachineType(name="a", price_microusd_per_hour=1000, spot_microusd_per_hour=400)


def test_without_a_seed_or_a_trace_capacity_and_price_are_constant() -> None:
    market = SimSpotMarket()
    assert market.is_available(KIND, "z", 1e9)
    assert market.spot_price(KIND, "z", 1e9) == 400
    assert market.next_change_s(0) is None


def test_a_trace_is_followed_tick_by_tick_and_repeats() -> None:
    market = SimSpotMarket(traces=[CapacityTrace(600, (True, False))], start_s=1000)
    assert [market.is_available(KIND, "z", 1000 + at_s) for at_s in (0, 599, 600, 1199, 1200)] == [
        True,
        True,
        False,
        False,
        True,
    ]


def test_speed_makes_ticks_shorter() -> None:
    market = SimSpotMarket(traces=[CapacityTrace(600, (True, False))], speed=60)
    assert [market.is_available(KIND, "z", at_s) for at_s in (9, 10, 20)] == [True, False, True]
    assert market.next_change_s(12) == 20


def test_a_tick_applies_from_its_exact_time() -> None:
    market = SimSpotMarket(traces=[CapacityTrace(600, (True, False))], speed=7, start_s=0.1)
    market.is_available(KIND, "z", 0)
    due_s = market.next_change_s(0.1)
    assert due_s is not None
    assert not market.is_available(KIND, "z", due_s)


def test_equal_seeds_give_equal_traces_and_other_seeds_others() -> None:
    assert random_trace("1") == random_trace("1") != random_trace("2")
    assert 0.4 < sum(random_trace("1").ticks) / len(random_trace("1").ticks) < 0.95


def test_with_a_seed_the_price_changes_hourly_by_at_most_ten_percent() -> None:
    market = SimSpotMarket(seed=1)
    prices = [market.spot_price(KIND, "z", 3600 * hour) for hour in range(50)]
    assert len(set(prices)) > 10
    assert all(360 <= price <= 440 for price in prices)
    assert market.spot_price(KIND, "z", 3599) == prices[0]


def test_an_invalid_trace_file_is_rejected_with_the_expected_format(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"data": [1]}')
    with pytest.raises(ValueError, match="gap_seconds"):
        read_trace(path)
    path.write_text('{"metadata": {"gap_seconds": 600}, "data": []}')
    with pytest.raises(ValueError, match="`data` must not be empty"):
        read_trace(path)


def test_a_published_trace_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 0]}))
    assert read_trace(path) == CapacityTrace(600, (True, False))
