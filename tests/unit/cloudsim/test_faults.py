import pytest

from anygpu.cloudsim.faults import FaultContext, FaultKind, FaultRegistry, InjectedFault

LAUNCH = FaultContext(vendor="ec2", operations=("launch", "RunInstances"), region="r", type="g5", spot=True)


def test_a_fault_occurs_as_often_as_requested() -> None:
    faults = FaultRegistry(lambda: 0)
    faults.add(InjectedFault(kind=FaultKind.NO_CAPACITY, times=2))
    assert [faults.trigger(FaultKind.NO_CAPACITY, LAUNCH) is not None for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert faults.active() == []


@pytest.mark.parametrize(
    "fault",
    [
        InjectedFault(kind=FaultKind.QUOTA, vendor="x"),
        InjectedFault(kind=FaultKind.QUOTA, region="x"),
        InjectedFault(kind=FaultKind.QUOTA, type="x"),
        InjectedFault(kind=FaultKind.QUOTA, operation="list"),
        InjectedFault(kind=FaultKind.QUOTA, spot=False),
        InjectedFault(kind=FaultKind.THROTTLE),
    ],
)
def test_a_fault_occurs_only_in_its_scope(fault: InjectedFault) -> None:
    faults = FaultRegistry(lambda: 0)
    faults.add(fault)
    assert faults.trigger(FaultKind.QUOTA, LAUNCH) is None


def test_an_operation_has_a_neutral_name_and_the_vendors_name() -> None:
    for name in ("launch", "RunInstances", ""):
        faults = FaultRegistry(lambda: 0)
        faults.add(InjectedFault(kind=FaultKind.THROTTLE, operation=name))
        assert faults.trigger(FaultKind.THROTTLE, LAUNCH)


def test_a_fault_ends_at_its_time_or_when_it_is_removed() -> None:
    now = [0]
    faults = FaultRegistry(lambda: now[0])
    faults.add(InjectedFault(kind=FaultKind.THROTTLE, until_ms=10))
    lasting = faults.add(InjectedFault(kind=FaultKind.QUOTA))
    now[0] = 10
    assert faults.trigger(FaultKind.THROTTLE, LAUNCH) is None
    faults.clear(lasting)
    assert faults.trigger(FaultKind.QUOTA, LAUNCH) is None
