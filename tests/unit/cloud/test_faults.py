import pytest

from anygpu.testing.cloud.faults import Fault, Faults, Kind, Occasion

LAUNCH = Occasion(vendor="ec2", operations=("launch", "RunInstances"), region="r", type="g5", spot=True)


def test_a_fault_strikes_as_often_as_it_was_asked_to() -> None:
    faults = Faults(lambda: 0)
    faults.add(Fault(kind=Kind.NO_CAPACITY, times=2))
    assert [faults.strikes(Kind.NO_CAPACITY, LAUNCH) is not None for _ in range(3)] == [True, True, False]
    assert faults.standing() == []


@pytest.mark.parametrize(
    "fault",
    [
        Fault(kind=Kind.QUOTA, vendor="x"),
        Fault(kind=Kind.QUOTA, region="x"),
        Fault(kind=Kind.QUOTA, type="x"),
        Fault(kind=Kind.QUOTA, operation="list"),
        Fault(kind=Kind.QUOTA, spot=False),
        Fault(kind=Kind.THROTTLE),
    ],
)
def test_a_fault_strikes_only_where_it_was_asked_to(fault: Fault) -> None:
    faults = Faults(lambda: 0)
    faults.add(fault)
    assert faults.strikes(Kind.QUOTA, LAUNCH) is None


def test_an_operation_can_be_named_neutrally_or_as_its_vendor_does() -> None:
    for name in ("launch", "RunInstances", ""):
        faults = Faults(lambda: 0)
        faults.add(Fault(kind=Kind.THROTTLE, operation=name))
        assert faults.strikes(Kind.THROTTLE, LAUNCH)


def test_a_fault_ends_at_its_time_or_when_it_is_lifted() -> None:
    now = [0]
    faults = Faults(lambda: now[0])
    faults.add(Fault(kind=Kind.THROTTLE, until_ms=10))
    lasting = faults.add(Fault(kind=Kind.QUOTA))
    now[0] = 10
    assert faults.strikes(Kind.THROTTLE, LAUNCH) is None
    faults.lift(lasting)
    assert faults.strikes(Kind.QUOTA, LAUNCH) is None
