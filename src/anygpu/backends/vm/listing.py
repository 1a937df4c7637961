"""One listing of a provider's machines, shared by every attempt: a thousand looks are one call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from anygpu.backends.vm.provider import Machine, Power

ALIVE = (Power.STARTING, Power.RUNNING, Power.STOPPED, Power.ENDING)
LIVELY = (Power.RUNNING, Power.STARTING, Power.STOPPED, Power.ENDING, Power.ENDED)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What the provider listed, by attempt, in a call that began at `began_at` of the loop's clock."""

    began_at: float
    machines: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict)

    def of(self, name: str) -> tuple[Machine, ...]:
        return self.machines.get(name, ())

    @cached_property
    def alive(self) -> set[str]:
        """Asked for at every launch: worked out once."""
        return {name for name, machines in self.machines.items() if any(m.power in ALIVE for m in machines)}


class Listing:
    """At most one call is in flight, and they do not come more often than the provider likes.

    After a rest two may follow at once: the first is nearly always the one that nothing had called for.
    """

    def __init__(
        self,
        fetch: Callable[[], Awaitable[Sequence[Machine]]],
        *,
        pause_s: float,
        on_listed: Callable[[Snapshot], None],
    ) -> None:
        self._fetch = fetch
        self._pause_s = pause_s
        self._on_listed = on_listed
        self._rested_at = float("-inf")  # when the calls so far have had their pauses
        self._gap_s = pause_s
        self._flight: asyncio.Task[None] | None = None
        self.latest: Snapshot | None = None

    async def newer_than(self, moment: float, *, enough: Callable[[], bool] = lambda: False) -> Snapshot:
        """A listing that did not begin before `moment`. Raises what the provider raised when there is none.

        `enough`: whether an older one has told by now what there is to know.
        """
        while self.latest is None or (self.latest.began_at < moment and not enough()):
            await self._joined()
        return self.latest

    async def _joined(self) -> None:
        if self._flight is None or self._flight.done():  # waiting for what is over would never let others run
            self._flight = asyncio.create_task(self._list())
            self._flight.add_done_callback(self._landed)
        # Shielded: one who no longer waits must not take the answer away from the others.
        await asyncio.shield(self._flight)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        if self._flight is flight:
            self._flight = None
        if not flight.cancelled():
            flight.exception()  # each who waited was told; when nobody waited, nobody needs to be

    async def _list(self) -> None:
        clock = asyncio.get_running_loop()
        await asyncio.sleep(self._rested_at - self._gap_s - clock.time())
        began_at = clock.time()
        try:
            machines = await self._fetch()
        finally:
            took_s = clock.time() - began_at
            self._gap_s = max(self._pause_s, 4 * took_s)  # a slow provider is asked less often
            self._rested_at = max(self._rested_at, began_at) + self._gap_s
        self.latest = Snapshot(began_at=began_at, machines=by_name(machines))
        self._on_listed(self.latest)

    async def close(self) -> None:
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)


def by_name(machines: Sequence[Machine]) -> dict[str, tuple[Machine, ...]]:
    grouped: dict[str, tuple[Machine, ...]] = {}
    for machine in machines:
        grouped[machine.name] = (*grouped.get(machine.name, ()), machine)
    return grouped


def kept(machines: Sequence[Machine], preferred: str = "") -> Machine | None:
    """The one machine of a name that counts: the one an agent was sent to, else the liveliest, else the oldest."""
    if not machines:
        return None
    return min(machines, key=lambda m: (m.id != preferred, LIVELY.index(m.power), _age(m), m.id))


def twins(machines: Sequence[Machine], preferred: str = "") -> list[Machine]:
    """Living machines of a name beside the one that counts."""
    chosen = kept(machines, preferred)
    return [m for m in machines if m is not chosen and m.power in ALIVE and m.power is not Power.ENDING]


def _age(machine: Machine) -> float:
    return float("inf") if machine.started_at_ms is None else machine.started_at_ms
