"""Backends that rent machines from a simulated provider.

At random, calls time out, are throttled, are rejected, or take effect without a response, as with real
providers.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

from anygpu.backends.contract import BilledInterval, LaunchRequest, Leftover, MachineState, Observation
from anygpu.errors import BackendUnavailable, LaunchRefused, NoCapacity, NoQuota, RateLimited
from anygpu.events.facts import Blame, Failure
from anygpu.events.offers import Billing, Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.testing.simulation.crashes import CallKind
from anygpu.testing.simulation.faults import Fault, FaultInjector
from anygpu.testing.simulation.providers.provider import SimMachine, SimProvider, provider_time_ms
from anygpu.testing.simulation.relay import SimRelay

Outage = tuple[float, float]  # from and until which time a backend cannot be reached
BROKEN = Failure(code="ssh", message="SSH refused five times", blame=Blame.LAUNCH)


class SimBackend:
    """A backend that rents machines from a `SimProvider` and can list them."""

    call_kinds: ClassVar[Mapping[str, CallKind]] = {
        "launch": "act",
        "terminate": "act",
        "offers": "call",
        "probe": "call",
        "inventory": "call",
    }

    def __init__(
        self,
        provider: SimProvider,
        *,
        dead: bool = False,
        interruptible: bool = False,
        lease_s: float = 0,
        opens_at: float = 0,
        outages: Sequence[Outage] = (),
        max_nodes: int = 1,
        relay: SimRelay | None = None,
    ) -> None:
        self.name = provider.name
        self.probe_every_s = 0.0
        self.relay = relay
        self._dead = dead
        self._provider = provider
        self._faults: FaultInjector = provider.faults
        self._interruptible = interruptible
        self._lease_s = lease_s
        self._opens_at = opens_at
        self._outages = outages
        self._max_nodes = max_nodes

    async def offers(self, need: Resources) -> Sequence[Offer]:
        await self._send_request()
        units = int(need.cpus or 1)
        provider, free = self._provider, self._provider.free_units()
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
                max_nodes=self._max_nodes,
            )
        ]

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        await self._send_request()
        self._maybe_reject()
        if self._faults.occurs(Fault.LAUNCH_LOST):
            await self._time_out()
        if self._faults.occurs(Fault.LAUNCH_LATE):
            self._provider.pending_launches += 1
            self._provider.loop.call_later(self._faults.uniform(5, 200), self._create_late, launch)
            await self._time_out()
        machine, *_ = self._provider.create(launch)
        if self._faults.occurs(Fault.LAUNCH_TIMED_OUT):
            await self._time_out()
        await self._send_response()
        return Handle(name=launch.name, native={"id": machine.id})

    def _maybe_reject(self) -> None:
        if self._faults.occurs(Fault.LAUNCH_NOT_SENT):
            raise BackendUnavailable(f"{self.name} refuses the connection")
        if self._faults.occurs(Fault.NO_CAPACITY):
            raise NoCapacity()
        if self._faults.occurs(Fault.BAD_CREDENTIALS):
            raise LaunchRefused("the key was revoked")
        if self._faults.occurs(Fault.OUT_OF_QUOTA):
            raise NoQuota()

    def _create_late(self, launch: LaunchRequest) -> None:
        self._provider.pending_launches -= 1
        with contextlib.suppress(NoCapacity, NoQuota):
            self._provider.create(launch, check_first=False)

    async def probe(self, handle: Handle) -> Observation:
        await self._send_request()
        if self._faults.occurs(Fault.PROBE_FAILED):
            await self._time_out()
        listed = self._provider.listed_machines(handle.name)
        if not listed or self._faults.occurs(Fault.LISTING_LAG, 0.2):
            return Observation(state=MachineState.ABSENT)
        return observe(self._provider, listed)

    async def terminate(self, handle: Handle) -> None:
        await self._send_request()
        lost = self._faults.occurs(Fault.TERMINATE_LOST)
        for machine in [] if lost else self._provider.listed_machines(handle.name):
            self._provider.end_soon(machine)
        if lost and self._faults.random.random() < 0.5:
            return  # the request was accepted but is never executed
        if lost or self._faults.occurs(Fault.TERMINATE_TIMED_OUT):
            await self._time_out()

    async def inventory(self) -> Sequence[Handle]:
        await self._send_request()
        if self._faults.occurs(Fault.PROBE_FAILED):
            await self._time_out()
        listed = [machine for machine in self._provider.machines if self._provider.is_listed(machine)]
        names = [machine.name for machine in listed if not machine.node]
        names += [machine.name for machine in listed if machine.node and machine.name not in names]
        return [Handle(name=name) for name in names]

    async def _send_request(self) -> None:
        await asyncio.sleep(self._faults.uniform(0.05, 0.5))
        if self._dead:
            await self._time_out()
        if any(begin <= self._provider.loop.time() < end for begin, end in self._outages):
            self._faults.record(Fault.OUTAGE, self.name)
            raise BackendUnavailable(f"{self.name} refuses the connection")
        if self._faults.occurs(Fault.THROTTLED):
            raise RateLimited(f"{self.name} is throttling")

    async def _send_response(self) -> None:
        await asyncio.sleep(self._faults.uniform(0.05, 3))

    async def _time_out(self) -> None:
        await asyncio.sleep(10)
        raise TimeoutError(f"{self.name} did not answer")


class SimHostBackend(SimBackend):
    """A backend for the user's own host, where the reports of a dead agent can still be read."""

    call_kinds: ClassVar[Mapping[str, CallKind]] = {**SimBackend.call_kinds, "deliver": "act"}

    async def deliver(self, handle: Handle) -> None:
        await self._send_request()
        for machine in self._provider.machines_named(handle.name):
            if machine.spool_lost:
                raise OSError("the disk cannot be read")
            if machine.guest is not None:
                machine.guest.deliver()


class SimCloudBackend(SimBackend):
    """A backend with paid machines and a meter.

    A machine's address may stay allocated after the machine has ended.
    """

    call_kinds: ClassVar[Mapping[str, CallKind]] = {
        **SimBackend.call_kinds,
        "leftovers": "call",
        "remove": "act",
        "metered_microusd": "call",
    }

    meter_factor = 1.0  # other than 1.0 simulates a wrong meter

    async def leftovers(self) -> Sequence[Leftover]:
        await self._send_request()
        left = self._provider.unreleased_addresses()
        return [Leftover(kind="address", id=each.id, name=each.machine.name) for each in left]

    async def remove(self, leftover: Leftover) -> None:
        await self._send_request()
        for address in self._provider.unreleased_addresses():
            if address.id == leftover.id:
                address.released_at = self._provider.loop.time()

    async def metered_microusd(self, handle: Handle) -> int | None:
        await self._send_request()
        machines = self._provider.machines_named(handle.name)
        if self._faults.occurs(Fault.METER_LATE) or any(m.ended_at is None for m in machines):
            return None
        return round(
            sum(charged_microusd(self._provider, machine) for machine in machines) * self.meter_factor
        )


def charged_microusd(provider: SimProvider, machine: SimMachine) -> int:
    until = provider.loop.time() if machine.ended_at is None else machine.ended_at
    return provider.tariff.charge(machine.price, machine.launched_at, until)


def observe(provider: SimProvider, machines: Sequence[SimMachine]) -> Observation:
    """Return what the provider's list says about `machines`, which all have the name of one attempt.

    If all of them have ended, the state is GONE; but it is ABSENT as long as the list may not show another
    machine of that name yet.
    """
    there = [machine for machine in machines if provider.is_listed(machine)]
    certain = provider.lists_completely(machines[0].name)
    firsts = [next(m for m in machines if m.node == node) for node in sorted({m.node for m in machines})]
    first, *others = (_interval(provider, machine) for machine in firsts)
    twins = [_interval(provider, machine) for machine in machines if machine not in firsts]
    nodes = {machine.node for machine in machines}
    running = {machine.node for machine in there if not machine.exited} == nodes
    taken = any(machine.noticed if there else machine.preempted for machine in there or machines)
    return Observation(
        state=MachineState.RUNNING
        if running
        else MachineState.EXITED
        if there
        else MachineState.GONE
        if certain
        else MachineState.ABSENT,
        detail="" if there else "taken back" if taken else "ended",
        preempted=taken,
        started_at_ms=first.started_at_ms,
        ended_at_ms=first.ended_at_ms,
        price_microusd_per_hour=first.price_microusd_per_hour,
        failure=BROKEN if any(_is_broken(provider, machine) for machine in there) else None,
        duplicates=tuple(twins),
        nodes=tuple(others),
    )


def _interval(provider: SimProvider, machine: SimMachine) -> BilledInterval:
    ended = (
        None
        if provider.is_listed(machine) or machine.ended_at is None
        else provider_time_ms(machine.ended_at)
    )
    return BilledInterval(
        started_at_ms=provider_time_ms(machine.launched_at),
        ended_at_ms=ended,
        price_microusd_per_hour=machine.price,
    )


def _is_broken(provider: SimProvider, machine: SimMachine) -> bool:
    return machine.broken_from is not None and machine.broken_from <= provider.loop.time()
