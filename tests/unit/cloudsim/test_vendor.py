"""Billing rules, zones and machine types of a simulated vendor."""

import pytest

from anygpu.cloudsim.vendor import SimBillingRule, SimMachineType, SimVendor

VENDOR = SimVendor(
    name="example",
    regions={"east": ("east-1a", "east-1b"), "west": ()},
    types=(SimMachineType(name="small", price_microusd_per_hour=100_000),),
)


@pytest.mark.parametrize(
    ("rule", "used_s", "billed_s"),
    [
        (SimBillingRule(), 61, 61),
        (SimBillingRule(step_s=60), 61, 120),
        (SimBillingRule(step_s=60), 60, 60),
        (SimBillingRule(step_s=60, minimum_s=300), 61, 300),
        (SimBillingRule(step_s=3600), 1, 3600),
        (SimBillingRule(minimum_s=60), 0, 60),
        (SimBillingRule(), -5, 0),
    ],
)
def test_time_is_rounded_up_to_steps_with_a_minimum(rule: SimBillingRule, used_s: int, billed_s: int) -> None:
    assert rule.billed_s(used_s) == billed_s


def test_a_region_without_zones_is_its_own_zone() -> None:
    assert VENDOR.zones("east") == ("east-1a", "east-1b")
    assert VENDOR.zones("west") == ("west",)


def test_a_type_is_found_by_its_name() -> None:
    assert VENDOR.find_type("small") is VENDOR.types[0]
    assert VENDOR.find_type("large") is None
