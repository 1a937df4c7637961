"""A simulated provider of machines with its own records and its own billing.

The provider shares no code with the real backends. The backends in `backend.py` rent from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor
from typing import Protocol

from anygpu.backends.contract import LaunchRequest
from anygpu.errors import NoCapacity, NoQuota
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.virtual_time import START_MS, VirtualLoop


@dataclass(slots=True)
class SimTariff:
    """The hourly price and the billing rule of a provider.

    If the price changes, machines that are already running keep the price at which they were launched.
    """

    price: int = 0  # micro-dollars per hour
    step_s: int = 1
    minimum_s: int = 0
    base_price: int = 0  # price changes are relative to this price

    def __post_init__(self) -> None:
        self.base_price = self.price

    def change(self, factor: float) -> None:
        self.price = round(self.base_price * factor)

    def charge(self, price: int, launched: float, ended: float) -> int:
        """Return the charge in micro-dollars for a machine.

        Its launch and end are rounded down to whole seconds.
        """
        seconds = provider_time_ms(ended) // 1000 - provider_time_ms(launched) // 1000
        counted = max(self.minimum_s, ceil(Fraction(seconds, self.step_s)) * self.step_s)
        return floor(Fraction(price * counted, 3600) + Fraction(1, 2))


def provider_time_ms(at: float) -> int:
    """Convert virtual seconds to unix milliseconds by the provider's clock, which never jumps."""
    return START_MS + round(at * 1000)


LAG_S = 35.0  # maximum lag of lists
NOTICES = ((Fault.PREEMPTED_0, 0.0), (Fault.PREEMPTED_30, 30.0), (Fault.PREEMPTED_120, 120.0))
MOMENTS = {
    "provisioning": Fault.PREEMPTED_PROVISIONING,
    "checkpointing": Fault.PREEMPTED_CHECKPOINTING,
    "cancelling": Fault.PREEMPTED_CANCELLING,
}


class SimGuest(Protocol):
    """Interface of the program that runs on a simulated machine after boot."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def notice(self) -> None:
        """Tell the guest that the machine will be preempted soon."""
        ...

    def deliver(self) -> None:
        """Send the reports that a dead agent left in its spool."""
        ...


@dataclass(eq=False, slots=True)
class SimMachine:
    """A machine in the provider's records, billed from `launched_at` to `ended_at`."""

    id: str
    name: str
    units: int
    launched_at: float
    listed_from: float
    price: int = 0
    ended_at: float | None = None
    listed_until: float = 0.0  # an ended machine may be listed as running until then
    ending: bool = False
    preempted: bool = False
    noticed: bool = False
    exited: bool = False
    broken_from: float | None = None  # time at which its setup failed
    spool_lost: bool = False
    paused_until: float = 0.0
    frozen_s: float = 0.0  # total time paused; the machine's clock is late by this time
    cut_off_until: float = 0.0
    guest: SimGuest | None = None
    # Only of engines with a queue (`queue_engine`):
    queued: bool = False
    restarts: int = 0
    started_at: float | None = None
    claimant: str = ""  # stored in the directory of the attempt, which stays the same when a job is restarted
    launch: LaunchRequest | None = None
    earlier_guests: list[SimGuest] = field(default_factory=list)
    node: int = 0  # of an attempt on several machines, which all have the name of the attempt


@dataclass(eq=False, slots=True)
class SimAddress:
    """An address of a machine. The address may still be allocated when the machine has ended."""

    id: str
    machine: SimMachine
    released_at: float | None = None


@dataclass(slots=True)
class SimProvider:
    """A provider that rents out machines. The invariants are checked against its records."""

    name: str
    loop: VirtualLoop
    faults: FaultInjector
    trace: Callable[[str], None]
    new_guest: Callable[[SimMachine, LaunchRequest], SimGuest]
    tariff: SimTariff
    capacity: int | None = None
    idempotent: bool = True  # by name; if not, a launch that timed out may leave a second machine
    quota: int | None = None  # maximum number of concurrent machines
    max_run_s: float | None = None  # machines are ended after this time
    has_addresses: bool = False
    machines: list[SimMachine] = field(default_factory=list)
    addresses: list[SimAddress] = field(default_factory=list)
    pending_launches: int = 0  # launches not yet executed

    def active_machines(self) -> list[SimMachine]:
        return [machine for machine in self.machines if machine.ended_at is None]

    def unreleased_addresses(self) -> list[SimAddress]:
        return [address for address in self.addresses if address.released_at is None]

    def machines_named(self, name: str) -> list[SimMachine]:
        return [machine for machine in self.machines if machine.name == name]

    def listed_machines(self, name: str) -> list[SimMachine]:
        return [machine for machine in self.machines_named(name) if machine.listed_from <= self.loop.time()]

    def is_listed(self, machine: SimMachine) -> bool:
        """Return whether the provider's list shows the machine as running.

        A list that is not up to date still shows a machine for some seconds after it has ended.
        """
        now = self.loop.time()
        return machine.listed_from <= now and (machine.ended_at is None or now < machine.listed_until)

    def lists_completely(self, name: str) -> bool:
        """Return whether the provider's list is sure to show every machine with this name.

        The list is complete if names are unique (`idempotent`), or if the newest machine was launched more
        than LAG_S seconds ago.
        """
        newest = max((machine.launched_at for machine in self.machines_named(name)), default=0.0)
        return self.idempotent or newest + LAG_S < self.loop.time()

    def free_units(self) -> int | None:
        if self.capacity is None:
            return None
        return self.capacity - sum(machine.units for machine in self.active_machines())

    def create(self, launch: LaunchRequest, *, check_first: bool = True) -> list[SimMachine]:
        """Return the machines of a launch request, one for each node. Create those that do not exist, or none.

        A provider that is not idempotent may create a second machine, because it finds only machines that are
        already in its list.
        """
        existing = {node: self._find_machine(launch, node, check_first) for node in range(launch.nodes)}
        missing = [node for node, machine in existing.items() if machine is None]
        units = int(launch.resources.cpus or 1)
        if missing:
            self._check_limits(units, len(missing))
        for node in missing:
            if not_ended(self._machines_of_node(launch.name, node)):
                self.faults.record(Fault.TWIN, launch.name)
            existing[node] = self._add_machine(launch, units, node)
        return [machine for machine in existing.values() if machine is not None]

    def _find_machine(self, launch: LaunchRequest, node: int, check_first: bool) -> SimMachine | None:
        listed = not_ended(self.listed_machines(launch.name)) if check_first else []
        found = self.machines_named(launch.name) if self.idempotent else listed
        return next((machine for machine in found if machine.node == node), None)

    def _machines_of_node(self, name: str, node: int) -> list[SimMachine]:
        return [machine for machine in self.machines_named(name) if machine.node == node]

    def _check_limits(self, units: int, count: int) -> None:
        left = self.free_units()
        if left is not None and left < units * count:
            raise NoCapacity()
        if self.quota is not None and len(self.active_machines()) + count > self.quota:
            self.faults.record(Fault.OUT_OF_QUOTA, self.name)
            raise NoQuota()

    def _add_machine(self, launch: LaunchRequest, units: int, node: int) -> SimMachine:
        lag_s = self.faults.uniform(5, LAG_S) if self.faults.occurs(Fault.LISTING_LAG) else 0.0
        now = self.loop.time()
        machine = SimMachine(
            f"m{len(self.machines) + 1}", launch.name, units, now, now + lag_s, self.tariff.price
        )
        machine.node = node
        machine.spool_lost = self.faults.occurs(Fault.SPOOL_LOST)
        self.machines.append(machine)
        self.trace(f"{self.name} created {machine.id} {machine.name}")
        if self.has_addresses:
            self.addresses.append(SimAddress(f"a{machine.id}", machine))
        machine.launch = launch
        machine.guest = self.new_guest(machine, launch)
        self._set_up(machine)
        self.maybe_interrupt(machine, "provisioning")
        return machine

    def _set_up(self, machine: SimMachine) -> None:
        if self.max_run_s is not None:
            self.loop.call_later(self.max_run_s, self._expire, machine)
        if self.faults.occurs(Fault.SETUP_FAILED):
            machine.broken_from = self.loop.time() + self.faults.uniform(3, 30)
        elif not self.faults.occurs(Fault.BOOT_STUCK):
            self.loop.call_later(self.faults.uniform(0.5, 9), self._boot, machine)

    def _boot(self, machine: SimMachine) -> None:
        if machine.ended_at is None and machine.guest is not None:
            machine.guest.start()

    def _expire(self, machine: SimMachine) -> None:
        if machine.ended_at is None:
            self.faults.record(Fault.EXPIRED, machine.id)
            self.end(machine)

    def maybe_interrupt(self, machine: SimMachine, what: str, factor: float = 1.0) -> None:
        """Preempt the machine, or kill it or its agent, if a random fault is due."""
        if machine.ended_at is not None or machine.noticed:
            return
        for fault, notice_s in NOTICES:
            if self.faults.occurs(fault, factor):
                if what in MOMENTS:
                    self.faults.record(MOMENTS[what], machine.id)
                self._take_back(machine, notice_s)
                return
        if self.faults.occurs(Fault.MACHINE_DIED, factor) and machine.guest is not None:
            machine.guest.kill()  # the machine stays in the records and is still billed
        elif what != "provisioning" and self.faults.occurs(Fault.AGENT_DIED, factor):
            self.agent_exited(machine)

    def agent_exited(self, machine: SimMachine) -> None:
        """Record that the agent has exited. The machine stays on and is billed until it is ended."""
        if machine.guest is not None:
            machine.guest.kill()
        machine.exited = True

    def _take_back(self, machine: SimMachine, notice_s: float) -> None:
        machine.noticed = True
        if machine.guest is not None and notice_s:
            machine.guest.notice()
        self.loop.call_later(notice_s, self._preempt, machine)

    def _preempt(self, machine: SimMachine) -> None:
        if machine.ended_at is None:
            machine.preempted = True
            self.end(machine)

    def end_soon(self, machine: SimMachine) -> None:
        if machine.ended_at is None and not machine.ending:
            machine.ending = True
            self.loop.call_later(self.faults.uniform(0.5, 8), self.end, machine)

    def end(self, machine: SimMachine) -> None:
        if machine.ended_at is not None:
            return
        machine.ended_at = self.loop.time()
        self.trace(f"{self.name} ended {machine.id} {machine.name}")
        if machine.guest is not None:
            machine.guest.kill()
        if self.faults.occurs(Fault.ENDED_STILL_LISTED):
            machine.listed_until = machine.ended_at + self.faults.uniform(3, LAG_S)
        for address in self.unreleased_addresses():
            if address.machine is machine and not self.faults.occurs(Fault.ADDRESS_LEFT):
                address.released_at = machine.ended_at


def not_ended(machines: Sequence[SimMachine]) -> list[SimMachine]:
    return [machine for machine in machines if machine.ended_at is None]
