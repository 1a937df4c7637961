"""A provider of machines that exist in memory, its faults on request, and a backend over it in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anygpu.backends.contract import AccountStatus, LaunchRequest, Leftover
from anygpu.backends.ssh.keys import HostKeyStore
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.backend import VmBackend
from anygpu.backends.vm.options import VmOptions, VmTiming
from anygpu.backends.vm.provider import CloudMachine, MachineOrder, PowerState
from anygpu.events.facts import Failure
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources
from anygpu.testing.simulation import virtual_time

HOUR_MICROUSD = 1_000_000
SMALL = Offer(backend="", name="small", region="here", price_microusd_per_hour=HOUR_MICROUSD)


@dataclass
class MemoryProvider:
    """Machines by id. A list shows a machine `listing_lag_s` after it was made, and ended ones while `shows_ended`."""

    idempotent: bool = False
    listing_lag_s: float = 0.0
    self_expires: str = "halt"
    user: str = "ubuntu"
    notices: str = ""
    shows_ended: bool = True
    machines_made: dict[str, CloudMachine] = field(default_factory=dict)
    made_at: dict[str, float] = field(default_factory=dict)
    left: list[Leftover] = field(default_factory=list)
    orders: list[MachineOrder] = field(default_factory=list)
    listings: int = 0
    asked_for_offers: int = 0
    destroyed: list[str] = field(default_factory=list)
    create_error: Exception | None = None
    lost_answers: int = 0  # creates that succeed and whose answer never comes
    list_error: Exception | None = None
    boots_with: str = "127.0.0.9"

    async def offers(self, need: Resources) -> Sequence[Offer]:
        self.asked_for_offers += 1
        await asyncio.sleep(0.1)
        return [replace(SMALL, self_expires=self.self_expires)]

    async def create(self, order: MachineOrder) -> CloudMachine:
        await asyncio.sleep(0.1)
        if self.create_error is not None:
            raise self.create_error
        self.orders.append(order)
        earlier = [m for m in self.machines_made.values() if m.name == order.name]
        machine = earlier[0] if earlier and self.idempotent else self.add(order.name)
        if self.lost_answers:
            self.lost_answers -= 1
            raise TimeoutError("no answer")
        return machine

    def add(self, name: str, *, power: PowerState = PowerState.STARTING) -> CloudMachine:
        number = len(self.machines_made) + 1
        machine = CloudMachine(id=f"m-{number}", name=name, power=power, started_at_ms=1000 * number)
        self.machines_made[machine.id] = machine
        self.made_at[machine.id] = asyncio.get_running_loop().time()
        return machine

    def change(self, machine_id: str, **changes: Any) -> None:
        self.machines_made[machine_id] = replace(self.machines_made[machine_id], **changes)

    def boot(self, machine_id: str = "m-1") -> None:
        self.change(machine_id, power=PowerState.RUNNING, address=self.boots_with)

    async def machines(self) -> Sequence[CloudMachine]:
        self.listings += 1
        visible_since = asyncio.get_running_loop().time() - self.listing_lag_s
        shown = [m for m in self.machines_made.values() if self.made_at[m.id] <= visible_since]
        await asyncio.sleep(0.05)
        if self.list_error is not None:
            raise self.list_error
        return [m for m in shown if self.shows_ended or m.power is not PowerState.ENDED]

    async def destroy(self, machine: CloudMachine) -> None:
        await asyncio.sleep(0.05)
        self.destroyed.append(machine.id)
        self.change(machine.id, power=PowerState.ENDED, ended_at_ms=9_000)

    async def check(self) -> AccountStatus:
        return AccountStatus(valid=True)

    async def leftovers(self) -> Sequence[Leftover]:
        return [*self.left]

    async def remove(self, leftover: Leftover) -> None:
        self.left.remove(leftover)

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        self.destroyed.append("closed")

    def alive(self) -> list[str]:
        return [m.id for m in self.machines_made.values() if m.power is not PowerState.ENDED]


@dataclass
class MemoryLink:
    """A link whose state a test sets."""

    attempt: VmAttempt
    changed: Callable[[], None]
    state: LinkState = LinkState.CONNECTING
    failure: Failure | None = None
    detail: str = ""
    exit_code: int | None = None
    running: bool = False

    def start(self) -> None:
        self.running = True

    async def stop(self) -> None:
        self.running = False

    def become(self, state: LinkState, detail: str = "", *, exit_code: int | None = None) -> None:
        self.state, self.detail, self.exit_code = state, detail, exit_code
        self.changed()


@dataclass
class Rented:
    """A backend over a provider in memory, and what it told the control loop."""

    provider: MemoryProvider
    backend: VmBackend
    changes: list[str]
    links: list[MemoryLink]
    delivered: list[str]

    @property
    def alive(self) -> list[str]:
        return self.provider.alive()


def rented(
    provider: MemoryProvider, options: VmOptions | None = None, *, secret: bytes = b"secret", **more: Any
) -> Rented:
    changes: list[str] = []
    links: list[MemoryLink] = []
    delivered: list[str] = []

    def link(attempt: VmAttempt, changed: Callable[[], None]) -> MemoryLink:
        links.append(MemoryLink(attempt, changed))
        return links[-1]

    async def deliver(attempt: VmAttempt) -> None:
        delivered.append(attempt.name)

    backend = VmBackend(
        "cloud",
        provider,
        options or VmOptions(),
        secret=secret,
        agent_target=("127.0.0.1", 1),
        pins=HostKeyStore(Path("nowhere")),
        on_change=changes.append,
        timing=more.pop("timing", VmTiming()),
        link=link,
        deliver=deliver,
        **more,
    )
    return Rented(provider, backend, changes, links, delivered)


def a_launch(number: int = 1, **changes: Any) -> LaunchRequest:
    name = f"anygpu-{'ab' * 16}-{number}"
    launch = LaunchRequest(
        name=name, job_id="job", attempt=number, ticket="ticket", agent_url="", resources=Resources()
    )
    return replace(launch, **changes)


def in_virtual_time(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    virtual_time.run(lambda loop: story())
