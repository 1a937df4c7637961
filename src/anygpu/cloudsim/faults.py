"""Faults that can be injected into the simulator, and which requests each fault affects."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    NO_CAPACITY = "no_capacity"
    QUOTA = "quota"
    THROTTLE = "throttle"
    LOST_ANSWER = "lost_answer"  # the call is executed, but its connection is closed without a response
    LISTING_LAG = "listing_lag"  # lists show the state of `seconds` ago
    BAD_CREDENTIALS = "bad_credentials"
    BOOT_HANGS = "boot_hangs"  # the machine runs and is billed, but is never ready
    SSH_REFUSED = "ssh_refused"  # the machine boots, but its SSH port is closed
    DISK_FULL = "disk_full"  # no file on the machine can grow beyond `bytes`


@dataclass(slots=True, kw_only=True)
class InjectedFault:
    """A fault, and which operations it affects. An empty field matches every operation.

    The fault ends after it has occurred `times` times, at `until_ms`, or when it is removed.
    """

    id: str = ""
    kind: FaultKind
    vendor: str = ""
    region: str = ""
    type: str = ""
    operation: str = ""  # launch, list, end, …, or the vendor's name of the call
    spot: bool | None = None
    times: int | None = None
    until_ms: int | None = None
    seconds: float = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultContext:
    """An operation that faults may affect. A fault occurs if its fields match those of the operation."""

    vendor: str
    operations: tuple[str, ...] = ()
    region: str = ""
    type: str = ""
    spot: bool | None = None


class FaultRegistry:
    """The active faults."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._faults: dict[str, InjectedFault] = {}
        self._count = itertools.count(1)

    def add(self, fault: InjectedFault) -> str:
        fault.id = f"fault-{next(self._count)}"
        self._faults[fault.id] = fault
        return fault.id

    def clear(self, fault_id: str = "") -> None:
        """Remove the fault with this id; without an id, remove all faults."""
        if fault_id:
            self._faults.pop(fault_id, None)
        else:
            self._faults.clear()

    def active(self) -> list[InjectedFault]:
        now_ms = self._now_ms()
        for fault in list(self._faults.values()):
            if fault.times == 0 or (fault.until_ms is not None and fault.until_ms <= now_ms):
                del self._faults[fault.id]
        return list(self._faults.values())

    def trigger(self, kind: FaultKind, context: FaultContext) -> InjectedFault | None:
        """Return an active fault of this kind that matches the operation; None if there is none.

        Each call that returns a fault reduces its `times` by one.
        """
        for fault in self.active():
            if fault.kind is kind and _matches(fault, context):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None


def _matches(fault: InjectedFault, context: FaultContext) -> bool:
    return (
        fault.vendor in ("", context.vendor)
        and fault.region in ("", context.region)
        and fault.type in ("", context.type)
        and (not fault.operation or fault.operation in context.operations)
        and fault.spot in (None, context.spot)
    )
