import pytest

from anygpu.cloudsim.billing import CloudBilling, cost_microusd
from anygpu.cloudsim.instance import Instance, InstanceOrder, StopCause
from anygpu.cloudsim.resources import PublicAddress
from anygpu.cloudsim.vendor import OnHalt, SimBillingRule, SimMachineType, SimVendor

HOUR_MS = 3_600_000
KIND = SimMachineType(name="a", price_microusd_per_hour=3_600_000)


def books(now_ms: int = 0) -> CloudBilling:
    return CloudBilling(lambda: now_ms)


def rented(
    rule: SimBillingRule,
    start_ms: int,
    end_ms: int | None,
    on_halt: OnHalt = "end",
    cause: StopCause = StopCause.USER,
) -> Instance:
    vendor = SimVendor(
        name="v",
        regions={"r": ()},
        types=(KIND,),
        billing_rule=rule,
        on_halt=on_halt,
        address_microusd_per_hour=7200,
    )
    return Instance(
        id="i-1",
        order=InstanceOrder(vendor=vendor, type="a", region="r"),
        type=KIND,
        zone="r",
        price_microusd_per_hour=KIND.price_microusd_per_hour,
        created_at_ms=start_ms,
        stopped_at_ms=end_ms,
        ended_at_ms=None if end_ms is None else end_ms + 10_000,
        internal_ip="127.77.0.1",
        cause=cause,
    )


@pytest.mark.parametrize(
    ("rule", "used_s", "billed_s"),
    [
        (SimBillingRule(step_s=1, minimum_s=60), 1, 60),
        (SimBillingRule(step_s=1, minimum_s=60), 61, 61),
        (SimBillingRule(step_s=60), 0, 0),
        (SimBillingRule(step_s=60), 1, 60),
        (SimBillingRule(step_s=60), 60, 60),
        (SimBillingRule(step_s=60), 61, 120),
        (SimBillingRule(step_s=3600), 3601, 7200),
        (SimBillingRule(), 17, 17),
    ],
)
def test_billed_time_follows_the_providers_rule(rule: SimBillingRule, used_s: int, billed_s: int) -> None:
    entry = books().machine_entry(rented(rule, 1000, 1000 + 1000 * used_s))
    assert (entry.billed_s, entry.billed_microusd) == (billed_s, 1000 * billed_s)


def test_amounts_are_rounded_to_the_nearest_microdollar() -> None:
    assert [cost_microusd(1, seconds) for seconds in (0, 1799, 1800, 3600)] == [0, 0, 1, 1]


def test_fractions_of_seconds_are_not_billed() -> None:
    assert books().machine_entry(rented(SimBillingRule(), 1999, 3000)).billed_s == 2


def test_a_running_machine_is_billed_until_now() -> None:
    entry = books(now_ms=HOUR_MS).machine_entry(rented(SimBillingRule(), 0, None))
    assert (entry.ended_at_ms, entry.billed_microusd) == (None, 3_600_000)


def test_a_switched_off_machine_is_billed_until_it_is_terminated() -> None:
    off = books().machine_entry(rented(SimBillingRule(), 0, 5000, on_halt="off", cause=StopCause.HALT))
    stopped = books().machine_entry(rented(SimBillingRule(), 0, 5000, on_halt="stop", cause=StopCause.HALT))
    assert (off.billed_s, stopped.billed_s) == (15, 5)


def test_a_wrong_meter_reports_both_the_wrong_and_the_right_amount() -> None:
    kept = books()
    kept.meter_factor = 1.1
    entry = kept.machine_entry(rented(SimBillingRule(), 0, 10_000))
    assert (entry.by_rule_microusd, entry.billed_microusd) == (10_000, 11_000)


def test_an_address_is_billed_from_allocation_to_release() -> None:
    vendor = rented(SimBillingRule(), 0, 0).vendor
    address = PublicAddress(
        id="a", vendor=vendor, region="r", ip="127.77.0.2", allocated_at_ms=0, released_at_ms=HOUR_MS
    )
    [entry] = books().entries([], [address])
    assert (entry.kind, entry.billed_microusd) == ("address", 7200)
