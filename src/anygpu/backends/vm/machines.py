"""List the provider's machines that belong to this server. All attempts share one listing.

Each machine's name consists of the attempt's name and a tag of the server that created it. Without the tag,
two servers that use the same account would delete each other's machines. The tag is derived from the server's
secret, so servers that share a journal and its keys share their machines too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from anygpu.backends.contract import Leftover
from anygpu.backends.owner import owner_tag
from anygpu.backends.vm.provider import CloudMachine, MachineOrder, PowerState, Provider


def machine_tag(secret: bytes) -> str:
    """Return the tag of this server in the names of its machines."""
    return owner_tag(secret, "owner of machines", digits=8)


class OwnedMachines:
    """Creates and lists the machines of this server at the provider.

    Appends the server's tag to the names of new machines, and removes it from the names of listed ones.
    """

    def __init__(self, provider: Provider, tag: str) -> None:
        self._provider = provider
        self._tag = tag

    async def create(self, order: MachineOrder) -> CloudMachine:
        made = await self._provider.create(self.with_tagged_name(order))
        return replace(made, name=order.name)

    def with_tagged_name(self, order: MachineOrder) -> MachineOrder:
        """Return the order as the provider gets it."""
        return replace(order, name=self._tagged_name(order.name))

    async def machines(self) -> Sequence[CloudMachine]:
        listed = await self._provider.machines()
        return [replace(m, name=self._attempt_name(m.name)) for m in listed if self._is_ours(m.name)]

    async def destroy(self, machine: CloudMachine) -> None:
        await self._provider.destroy(self.with_tag(machine))

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return await self._provider.host_keys(self.with_tag(machine))

    async def leftovers(self) -> Sequence[Leftover]:
        listed = await self._provider.leftovers()
        return [
            replace(left, name=self._attempt_name(left.name)) for left in listed if self._is_ours(left.name)
        ]

    async def remove(self, leftover: Leftover) -> None:
        await self._provider.remove(replace(leftover, name=self._tagged_name(leftover.name)))

    def with_tag(self, machine: CloudMachine) -> CloudMachine:
        return replace(machine, name=self._tagged_name(machine.name))

    def _tagged_name(self, name: str) -> str:
        return f"{name}-{self._tag}"

    def _attempt_name(self, name: str) -> str:
        return name.removesuffix(f"-{self._tag}")

    def _is_ours(self, name: str) -> bool:
        return name.endswith(f"-{self._tag}")


ALIVE = (PowerState.STARTING, PowerState.RUNNING, PowerState.STOPPED, PowerState.ENDING)
PREFERENCE = (
    PowerState.RUNNING,
    PowerState.STARTING,
    PowerState.STOPPED,
    PowerState.ENDING,
    PowerState.ENDED,
)


@dataclass(frozen=True, kw_only=True)
class MachineSnapshot:
    """The machines of one listing, by attempt. `began_at` is when the list was requested (event loop's clock)."""

    began_at: float
    machines: Mapping[str, tuple[CloudMachine, ...]] = field(default_factory=dict)

    def of_attempt(self, name: str) -> tuple[CloudMachine, ...]:
        return self.machines.get(name, ())

    @cached_property
    def alive(self) -> set[str]:
        """The names of attempts that have a machine. Cached, because every launch needs them."""
        return {name for name, machines in self.machines.items() if any(m.power in ALIVE for m in machines)}


class MachineListing:
    """Lists the machines, with at most one call at a time and pauses between calls.

    After a long pause, two calls may directly follow each other, so that a call that someone waits for is not
    delayed by a periodic one.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Sequence[CloudMachine]]],
        *,
        pause_s: float,
        on_listed: Callable[[MachineSnapshot], None],
    ) -> None:
        self._fetch = fetch
        self._pause_s = pause_s
        self._on_listed = on_listed
        self._rested_at = float("-inf")  # when the pauses after all calls so far have passed
        self._gap_s = pause_s
        self._call: asyncio.Task[None] | None = None
        self.latest: MachineSnapshot | None = None

    async def newer_than(
        self, moment: float, *, enough: Callable[[], bool] = lambda: False
    ) -> MachineSnapshot:
        """Return a list of the machines that was requested at or after `moment`, or raise the provider's error.

        If `enough()` becomes true while waiting, an older list is returned.
        """
        while self.latest is None or (self.latest.began_at < moment and not enough()):
            await self._join_call()
        return self.latest

    async def _join_call(self) -> None:
        if self._call is None or self._call.done():  # awaiting a finished call would starve other tasks
            self._call = asyncio.create_task(self._list())
            self._call.add_done_callback(self._call_done)
        # Shielded: a caller that is cancelled must not cancel the call of the others.
        await asyncio.shield(self._call)

    def _call_done(self, flight: asyncio.Task[None]) -> None:
        if self._call is flight:
            self._call = None
        if not flight.cancelled():
            flight.exception()  # mark as retrieved: every waiting caller has received the error

    async def _list(self) -> None:
        clock = asyncio.get_running_loop()
        await asyncio.sleep(self._rested_at - self._gap_s - clock.time())
        began_at = clock.time()
        try:
            machines = await self._fetch()
        finally:
            took_s = clock.time() - began_at
            self._gap_s = max(self._pause_s, 4 * took_s)  # call a slow provider less often
            self._rested_at = max(self._rested_at, began_at) + self._gap_s
        self.latest = MachineSnapshot(began_at=began_at, machines=group_by_name(machines))
        self._on_listed(self.latest)

    async def close(self) -> None:
        if self._call is not None:
            self._call.cancel()
            await asyncio.gather(self._call, return_exceptions=True)


def group_by_name(machines: Sequence[CloudMachine]) -> dict[str, tuple[CloudMachine, ...]]:
    grouped: dict[str, tuple[CloudMachine, ...]] = {}
    for machine in machines:
        grouped[machine.name] = (*grouped.get(machine.name, ()), machine)
    return grouped


def select_machine(machines: Sequence[CloudMachine], preferred: str = "") -> CloudMachine | None:
    """Select the attempt's machine among the machines of its name; None if there are none.

    The machine with id `preferred` comes first, then those in the best power state (see PREFERENCE), then the
    oldest.
    """
    if not machines:
        return None
    return min(machines, key=lambda m: (m.id != preferred, PREFERENCE.index(m.power), _age(m), m.id))


def duplicate_machines(machines: Sequence[CloudMachine], preferred: str = "") -> list[CloudMachine]:
    """Return the machines to destroy, because the attempt uses another machine of the same name."""
    chosen = select_machine(machines, preferred)
    return [m for m in machines if m is not chosen and m.power in ALIVE and m.power is not PowerState.ENDING]


def _age(machine: CloudMachine) -> float:
    return float("inf") if machine.started_at_ms is None else machine.started_at_ms
