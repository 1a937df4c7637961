"""The backend that rents from a simulated provider. Its calls fail in all the ways a call to a provider can."""

import asyncio
import contextlib
from collections.abc import Sequence

from anygpu.backends.contract import Interval, Launch, Leftover, Observation, State
from anygpu.errors import LaunchRefused, NoCapacity, NoQuota, RateLimited
from anygpu.events.facts import Billing, Blame, Failure, Handle, Offer
from anygpu.spec.model import Resources
from anygpu.testing.faults import Fault, Faults
from anygpu.testing.provider import Machine, SimProvider
from anygpu.testing.sim_books import shown_ms

BROKEN = Failure(code="ssh", message="SSH refused five times", blame=Blame.LAUNCH)


class SimBackend:
    """A `Backend` that also lists."""

    def __init__(
        self,
        provider: SimProvider,
        *,
        dead: bool = False,
        interruptible: bool = False,
        lease_s: float = 0,
        opens_at: float = 0,
    ) -> None:
        self.name = provider.name
        self.probe_every_s = 0.0
        self._dead = dead
        self._provider = provider
        self._faults: Faults = provider.faults
        self._interruptible = interruptible
        self._lease_s = lease_s
        self._opens_at = opens_at

    async def offers(self, need: Resources) -> Sequence[Offer]:
        await self._travel()
        units = int(need.cpus or 1)
        provider, free = self._provider, self._provider.free()
        if provider.loop.time() < self._opens_at:
            return []
        return [
            Offer(
                backend=self.name,
                cpus=provider.capacity or 8,
                free=None if free is None else max(0, free // units),
                price_microusd_per_hour=provider.tariff.price,
                billing=Billing(step_s=provider.tariff.step_s, minimum_s=provider.tariff.minimum_s),
                interruptible=self._interruptible,
                max_run_s=provider.max_run_s,
                lease_s=self._lease_s,
            )
        ]

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        await self._travel()
        self._maybe_refuse()
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

    def _maybe_refuse(self) -> None:
        if self._faults.strikes(Fault.NO_CAPACITY):
            raise NoCapacity()
        if self._faults.strikes(Fault.BAD_CREDENTIALS):
            raise LaunchRefused("the key was revoked")
        if self._faults.strikes(Fault.OUT_OF_QUOTA):
            raise NoQuota()

    def _create_late(self, launch: Launch) -> None:
        self._provider.late -= 1
        with contextlib.suppress(NoCapacity, NoQuota):
            self._provider.create(launch, look=False)

    async def probe(self, handle: Handle) -> Observation:
        await self._travel()
        if self._faults.strikes(Fault.PROBE_FAILED):
            await self._time_out()
        listed = self._provider.listed(handle.name)
        if not listed or self._faults.strikes(Fault.LISTING_LAG, 0.2):
            return Observation(state=State.ABSENT)
        return observe(self._provider, listed)

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
        return [Handle(name=m.name) for m in self._provider.books if self._provider.shown(m)]

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


class SimCloud(SimBackend):
    """A place that charges: it has a meter, and machines leave things behind."""

    meter_factor = 1.0  # a meter that is wrong on request

    async def leftovers(self) -> Sequence[Leftover]:
        await self._travel()
        left = self._provider.left_behind()
        return [Leftover(kind="address", id=each.id, name=each.machine.name) for each in left]

    async def remove(self, leftover: Leftover) -> None:
        await self._travel()
        for address in self._provider.left_behind():
            if address.id == leftover.id:
                address.released = self._provider.loop.time()

    async def metered_microusd(self, handle: Handle) -> int | None:
        await self._travel()
        machines = self._provider.named(handle.name)
        if self._faults.strikes(Fault.METER_LATE) or any(m.ended is None for m in machines):
            return None
        return round(sum(charged(self._provider, machine) for machine in machines) * self.meter_factor)


def charged(provider: SimProvider, machine: Machine) -> int:
    until = provider.loop.time() if machine.ended is None else machine.ended
    return provider.tariff.charge(machine.price, machine.launched, until)


def observe(provider: SimProvider, machines: Sequence[Machine]) -> Observation:
    """What the provider's list shows for one name. Where a twin may be hidden, an ended machine proves nothing."""
    there = [machine for machine in machines if provider.shown(machine)]
    certain = provider.knows(machines[0].name)
    first, *twins = (_interval(provider, machine) for machine in machines)
    running = [machine for machine in there if not machine.exited]
    taken = any(machine.noticed if there else machine.preempted for machine in there or machines)
    return Observation(
        state=State.RUNNING
        if running
        else State.EXITED
        if there
        else State.GONE
        if certain
        else State.ABSENT,
        detail="" if there else "taken back" if taken else "ended",
        preempted=taken,
        started_at_ms=first.started_at_ms,
        ended_at_ms=first.ended_at_ms,
        price_microusd_per_hour=first.price_microusd_per_hour,
        failure=BROKEN if any(_is_broken(provider, machine) for machine in there) else None,
        twins=tuple(twins),
    )


def _interval(provider: SimProvider, machine: Machine) -> Interval:
    ended = None if provider.shown(machine) or machine.ended is None else shown_ms(machine.ended)
    return Interval(
        started_at_ms=shown_ms(machine.launched), ended_at_ms=ended, price_microusd_per_hour=machine.price
    )


def _is_broken(provider: SimProvider, machine: Machine) -> bool:
    return machine.broken_from is not None and machine.broken_from <= provider.loop.time()
