"""A simulated provider with its own books, and the backend that rents from it. Shares no code with real adapters."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anygpu.backends.contract import Launch, Observation, State
from anygpu.errors import LaunchRefused, NoCapacity, RateLimited
from anygpu.events.facts import Handle, Offer
from anygpu.spec.model import Resources
from anygpu.testing.faults import Fault, Faults
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
    ended: float | None = None
    ending: bool = False
    preempted: bool = False
    noticed: bool = False
    exited: bool = False
    spool_lost: bool = False
    paused_until: float = 0.0
    frozen_s: float = 0.0  # how long it stood still in all: its own clock lags by this
    cut_off_until: float = 0.0
    guest: Guest | None = None


@dataclass(slots=True)
class SimProvider:
    """Rents out machines. What its books say is the truth the invariants are checked against."""

    name: str
    loop: VirtualLoop
    faults: Faults
    trace: Callable[[str], None]
    new_guest: Callable[[Machine, Launch], Guest]
    capacity: int | None = None
    idempotent: bool = True  # by name; otherwise a launch that timed out may leave a twin
    books: list[Machine] = field(default_factory=list)
    late: int = 0  # launches on their way

    def active(self) -> list[Machine]:
        return [machine for machine in self.books if machine.ended is None]

    def named(self, name: str) -> list[Machine]:
        return [machine for machine in self.books if machine.name == name]

    def listed(self, name: str) -> list[Machine]:
        return [machine for machine in self.named(name) if machine.listed_from <= self.loop.time()]

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
        seen = _alive(self.listed(launch.name)) if look else []
        known = self.named(launch.name) if self.idempotent else seen
        if known:
            return known[0]
        if _alive(self.named(launch.name)):
            self.faults.note(Fault.TWIN, launch.name)
        units = int(launch.resources.cpus or 1)
        left = self.free()
        if left is not None and left < units:
            raise NoCapacity()
        return self._book(launch, units)

    def _book(self, launch: Launch, units: int) -> Machine:
        lag_s = self.faults.between(5, LAG_S) if self.faults.strikes(Fault.LISTING_LAG) else 0.0
        now = self.loop.time()
        machine = Machine(f"m{len(self.books) + 1}", launch.name, units, now, now + lag_s)
        machine.spool_lost = self.faults.strikes(Fault.SPOOL_LOST)
        self.books.append(machine)
        self.trace(f"{self.name} created {machine.id} {machine.name}")
        machine.guest = self.new_guest(machine, launch)
        self.loop.call_later(self.faults.between(0.5, 9), self._boot, machine)
        self.moment(machine, "provisioning")
        return machine

    def _boot(self, machine: Machine) -> None:
        if machine.ended is None and machine.guest is not None:
            machine.guest.start()

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
        if machine.ended is None:
            machine.ended = self.loop.time()
            self.trace(f"{self.name} ended {machine.id} {machine.name}")
            if machine.guest is not None:
                machine.guest.kill()


class SimBackend:
    """A `Backend` that also lists. Its calls fail in all the ways a network call to a provider can."""

    def __init__(self, provider: SimProvider, *, price: int, dead: bool = False) -> None:
        self.name = provider.name
        self.probe_every_s = 0.0
        self._dead = dead
        self._provider = provider
        self._faults = provider.faults
        self._price = price

    async def offers(self, need: Resources) -> Sequence[Offer]:
        await self._travel()
        units = int(need.cpus or 1)
        free = self._provider.free()
        size = self._provider.capacity or 8
        places = None if free is None else max(0, free // units)
        return [Offer(backend=self.name, cpus=size, free=places, price_microusd_per_hour=self._price)]

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        await self._travel()
        if self._faults.strikes(Fault.NO_CAPACITY):
            raise NoCapacity()
        if self._faults.strikes(Fault.BAD_CREDENTIALS):
            raise LaunchRefused("the key was revoked")
        if self._faults.strikes(Fault.LAUNCH_LOST):
            await self._time_out()
        if self._faults.strikes(Fault.LAUNCH_LATE):
            self._provider.late += 1
            self._provider.loop.call_later(self._faults.between(5, 200), self._create_late, launch)
            await self._time_out()
        machine = self._provider.create(launch)
        if self._faults.strikes(Fault.LAUNCH_TIMED_OUT):
            await self._time_out()
        await self._travel_back()
        return Handle(name=launch.name, native={"id": machine.id})

    def _create_late(self, launch: Launch) -> None:
        self._provider.late -= 1
        with contextlib.suppress(NoCapacity):
            self._provider.create(launch, look=False)

    async def probe(self, handle: Handle) -> Observation:
        await self._travel()
        if self._faults.strikes(Fault.PROBE_FAILED):
            await self._time_out()
        listed = self._provider.listed(handle.name)
        if not listed or self._faults.strikes(Fault.LISTING_LAG, 0.2):
            return Observation(state=State.ABSENT)
        return observe(listed, certain=self._provider.knows(handle.name))

    async def terminate(self, handle: Handle) -> None:
        await self._travel()
        lost = self._faults.strikes(Fault.TERMINATE_LOST)
        for machine in [] if lost else self._provider.listed(handle.name):
            self._provider.end_soon(machine)
        if lost and self._faults.random.random() < 0.5:
            return  # accepted, answered, forgotten
        if lost or self._faults.strikes(Fault.TERMINATE_TIMED_OUT):
            await self._time_out()

    async def inventory(self) -> Sequence[Handle]:
        await self._travel()
        if self._faults.strikes(Fault.PROBE_FAILED):
            await self._time_out()
        now = self._provider.loop.time()
        return [Handle(name=m.name) for m in self._provider.active() if m.listed_from <= now]

    async def _travel(self) -> None:
        await asyncio.sleep(self._faults.between(0.05, 0.5))
        if self._dead:
            await self._time_out()
        if self._faults.strikes(Fault.THROTTLED):
            raise RateLimited(f"{self.name} is throttling")

    async def _travel_back(self) -> None:
        await asyncio.sleep(self._faults.between(0.05, 3))

    async def _time_out(self) -> None:
        await asyncio.sleep(10)
        raise TimeoutError(f"{self.name} did not answer")


class SimBox(SimBackend):
    """A place of one's own: what an agent wrote to disk before it died can still be read there."""

    async def deliver(self, handle: Handle) -> None:
        await self._travel()
        for machine in self._provider.named(handle.name):
            if machine.spool_lost:
                raise OSError("the disk cannot be read")
            if machine.guest is not None:
                machine.guest.deliver()


def observe(machines: Sequence[Machine], *, certain: bool) -> Observation:
    """What the provider's list shows for one name. Where a twin may be hidden, an ended machine proves nothing."""
    alive = _alive(machines)
    if not alive and not certain:
        return Observation(state=State.ABSENT)
    if not alive:
        taken = any(machine.preempted for machine in machines)
        return Observation(state=State.GONE, detail="taken back" if taken else "ended", preempted=taken)
    running = [machine for machine in alive if not machine.exited]
    noticed = any(machine.noticed for machine in alive)
    return Observation(state=State.RUNNING if running else State.EXITED, preempted=noticed)


def _alive(machines: Sequence[Machine]) -> list[Machine]:
    return [machine for machine in machines if machine.ended is None]
