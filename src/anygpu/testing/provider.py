"""A simulated provider with its own books. Shares no code with real adapters; `sim_backend.py` rents from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anygpu.backends.contract import Launch
from anygpu.errors import NoCapacity, NoQuota
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.sim_books import Tariff
from anygpu.testing.virtual import VirtualLoop

LAG_S = 35.0  # how far lists may lag at most
NOTICES = ((Fault.PREEMPTED_0, 0.0), (Fault.PREEMPTED_30, 30.0), (Fault.PREEMPTED_120, 120.0))
MOMENTS = {
    "provisioning": Fault.PREEMPTED_PROVISIONING,
    "checkpointing": Fault.PREEMPTED_CHECKPOINTING,
    "cancelling": Fault.PREEMPTED_CANCELLING,
}


class Guest(Protocol):
    """What runs on a machine once it has booted."""

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def notice(self) -> None:
        """The machine will be taken back soon."""
        ...

    def deliver(self) -> None:
        """Send what a dead agent left behind."""
        ...


@dataclass(eq=False, slots=True)
class Machine:
    """One line of the provider's books. Billed from `launched` to `ended`."""

    id: str
    name: str
    units: int
    launched: float
    listed_from: float
    price: int = 0
    ended: float | None = None
    shown_until: float = 0.0  # an ended one may be listed as running until then
    ending: bool = False
    preempted: bool = False
    noticed: bool = False
    exited: bool = False
    broken_from: float | None = None  # a step of setting it up has failed for good
    spool_lost: bool = False
    paused_until: float = 0.0
    frozen_s: float = 0.0  # how long it stood still in all: its own clock lags by this
    cut_off_until: float = 0.0
    guest: Guest | None = None


@dataclass(eq=False, slots=True)
class Address:
    """Another line: it belongs to a machine, and may outlive it."""

    id: str
    machine: Machine
    released: float | None = None


@dataclass(slots=True)
class SimProvider:
    """Rents out machines. What its books say is the truth the invariants are checked against."""

    name: str
    loop: VirtualLoop
    faults: Faults
    trace: Callable[[str], None]
    new_guest: Callable[[Machine, Launch], Guest]
    tariff: Tariff
    capacity: int | None = None
    idempotent: bool = True  # by name; otherwise a launch that timed out may leave a twin
    quota: int | None = None  # machines at a time
    max_run_s: float | None = None  # it ends machines that are older
    addresses_too: bool = False
    books: list[Machine] = field(default_factory=list)
    addresses: list[Address] = field(default_factory=list)
    late: int = 0  # launches on their way

    def active(self) -> list[Machine]:
        return [machine for machine in self.books if machine.ended is None]

    def left_behind(self) -> list[Address]:
        return [address for address in self.addresses if address.released is None]

    def named(self, name: str) -> list[Machine]:
        return [machine for machine in self.books if machine.name == name]

    def listed(self, name: str) -> list[Machine]:
        return [machine for machine in self.named(name) if machine.listed_from <= self.loop.time()]

    def shown(self, machine: Machine) -> bool:
        """Whether its lists show the machine as being there; those that lag show what has ended, too."""
        now = self.loop.time()
        return machine.listed_from <= now and (machine.ended is None or now < machine.shown_until)

    def knows(self, name: str) -> bool:
        """Whether nothing of this name can be hidden from its lists: names are unique, or the last one is old."""
        newest = max((machine.launched for machine in self.named(name)), default=0.0)
        return self.idempotent or newest + LAG_S < self.loop.time()

    def free(self) -> int | None:
        if self.capacity is None:
            return None
        return self.capacity - sum(machine.units for machine in self.active())

    def create(self, launch: Launch, *, look: bool = True) -> Machine:
        """Without idempotency keys a caller looks first, and may see too little or too early."""
        seen = alive(self.listed(launch.name)) if look else []
        known = self.named(launch.name) if self.idempotent else seen
        if known:
            return known[0]
        units = int(launch.resources.cpus or 1)
        self._refuse(units)
        if alive(self.named(launch.name)):
            self.faults.note(Fault.TWIN, launch.name)
        return self._book(launch, units)

    def _refuse(self, units: int) -> None:
        left = self.free()
        if left is not None and left < units:
            raise NoCapacity()
        if self.quota is not None and len(self.active()) >= self.quota:
            self.faults.note(Fault.OUT_OF_QUOTA, self.name)
            raise NoQuota()

    def _book(self, launch: Launch, units: int) -> Machine:
        lag_s = self.faults.between(5, LAG_S) if self.faults.strikes(Fault.LISTING_LAG) else 0.0
        now = self.loop.time()
        machine = Machine(f"m{len(self.books) + 1}", launch.name, units, now, now + lag_s, self.tariff.price)
        machine.spool_lost = self.faults.strikes(Fault.SPOOL_LOST)
        self.books.append(machine)
        self.trace(f"{self.name} created {machine.id} {machine.name}")
        if self.addresses_too:
            self.addresses.append(Address(f"a{machine.id}", machine))
        machine.guest = self.new_guest(machine, launch)
        self._set_up(machine)
        self.moment(machine, "provisioning")
        return machine

    def _set_up(self, machine: Machine) -> None:
        if self.max_run_s is not None:
            self.loop.call_later(self.max_run_s, self._expire, machine)
        if self.faults.strikes(Fault.SETUP_FAILED):
            machine.broken_from = self.loop.time() + self.faults.between(3, 30)
        elif not self.faults.strikes(Fault.BOOT_STUCK):
            self.loop.call_later(self.faults.between(0.5, 9), self._boot, machine)

    def _boot(self, machine: Machine) -> None:
        if machine.ended is None and machine.guest is not None:
            machine.guest.start()

    def _expire(self, machine: Machine) -> None:
        if machine.ended is None:
            self.faults.note(Fault.EXPIRED, machine.id)
            self.end(machine)

    def moment(self, machine: Machine, what: str, factor: float = 1.0) -> None:
        """A moment at which the machine may be taken back, or die."""
        if machine.ended is not None or machine.noticed:
            return
        for fault, notice_s in NOTICES:
            if self.faults.strikes(fault, factor):
                if what in MOMENTS:
                    self.faults.note(MOMENTS[what], machine.id)
                self._take_back(machine, notice_s)
                return
        if self.faults.strikes(Fault.MACHINE_DIED, factor) and machine.guest is not None:
            machine.guest.kill()  # the books still show it, and it is still billed
        elif what != "provisioning" and self.faults.strikes(Fault.AGENT_DIED, factor):
            self.agent_left(machine)

    def agent_left(self, machine: Machine) -> None:
        """Nothing runs on it any more; it is billed until somebody ends it."""
        if machine.guest is not None:
            machine.guest.kill()
        machine.exited = True

    def _take_back(self, machine: Machine, notice_s: float) -> None:
        machine.noticed = True
        if machine.guest is not None and notice_s:
            machine.guest.notice()
        self.loop.call_later(notice_s, self._preempt, machine)

    def _preempt(self, machine: Machine) -> None:
        if machine.ended is None:
            machine.preempted = True
            self.end(machine)

    def end_soon(self, machine: Machine) -> None:
        if machine.ended is None and not machine.ending:
            machine.ending = True
            self.loop.call_later(self.faults.between(0.5, 8), self.end, machine)

    def end(self, machine: Machine) -> None:
        if machine.ended is not None:
            return
        machine.ended = self.loop.time()
        self.trace(f"{self.name} ended {machine.id} {machine.name}")
        if machine.guest is not None:
            machine.guest.kill()
        if self.faults.strikes(Fault.ENDED_STILL_LISTED):
            machine.shown_until = machine.ended + self.faults.between(3, LAG_S)
        for address in self.left_behind():
            if address.machine is machine and not self.faults.strikes(Fault.ADDRESS_LEFT):
                address.released = machine.ended


def alive(machines: Sequence[Machine]) -> list[Machine]:
    return [machine for machine in machines if machine.ended is None]
