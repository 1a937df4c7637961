"""Any provider of machines as a backend: four verbs, one lifecycle (docs/decisions/0007-rented-machines.md)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from anygpu.backends.contract import Account, Launch, Leftover, Observation, Shell
from anygpu.backends.ssh.keys import attempt_key
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.ssh.pins import Pins
from anygpu.backends.vm.attempt import AttemptLink, VmAttempt
from anygpu.backends.vm.creating import Maker
from anygpu.backends.vm.limits import allowed, full
from anygpu.backends.vm.listing import Listing, Snapshot, kept, twins
from anygpu.backends.vm.metering import Meter
from anygpu.backends.vm.observing import observe
from anygpu.backends.vm.offering import RememberedOffers
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.owned import OwnedMachines, owner_mark
from anygpu.backends.vm.provider import Machine, Meters, Order, Power, Provider
from anygpu.backends.vm.reaching import Reach
from anygpu.backends.vm.sealing import Seal
from anygpu.backends.vm.startup import startup_script
from anygpu.backends.vm.timing import VmTiming, timing_of
from anygpu.backends.vm.watching import Watch
from anygpu.errors import LaunchRefused, NoCapacity, NotFound
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

STALE_S = 15.0  # how much older than the slowest listing a listing may be before a look waits for another
ENDING_S = 30.0  # how long a provider that was told to end a machine is given before it is told again
REMEMBERED_S = 172_800.0  # how long what is over is still known: meters are read a day later

LinkMaker = Callable[[VmAttempt, Callable[[], None]], AttemptLink]
Deliver = Callable[[VmAttempt], Awaitable[None]]


class VmBackend:
    """Rents a machine for each attempt. Made inside the event loop it runs in."""

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        provider: Provider,
        options: VmOptions,
        *,
        secret: bytes,
        agent_target: tuple[str, int],
        pins: Pins,
        on_change: Callable[[str], None],
        timing: VmTiming | None = None,
        attended: bool = False,
        link: LinkMaker | None = None,
        deliver: Deliver | None = None,
    ) -> None:
        """`on_change` is told the name of an attempt worth a look; `attended`: this server is always on."""
        self.name = name
        self._provider = provider
        self._options = options
        self._attended = attended
        self._secret = secret
        self._on_change = on_change
        self._timing = timing or timing_of(options)
        self._clock = asyncio.get_running_loop()
        self._seal = Seal(secret)
        self._machines = OwnedMachines(provider, owner_mark(secret))
        self._attempts: dict[str, VmAttempt] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._offers = RememberedOffers(provider.offers, keep_s=self._timing.offers_s)
        self._listing = Listing(
            self._machines.machines, pause_s=self._timing.hurry_s, on_listed=self._take_in_all
        )
        self._watch = Watch(self._listing, self._attempts.values, self._timing)
        self._maker = Maker(
            self._machines,
            self._listing,
            idempotent=provider.idempotent,
            lag_s=provider.listing_lag_s,
        )
        self._reach = Reach(
            self._machines,
            user=options.user or provider.user,
            notices=provider.notices,
            port=options.ssh_port,
            secret=secret,
            agent_target=agent_target,
            pins=pins,
            timing=self._timing,
        )
        self._link = link or self._reach.link
        self._deliver = deliver or self._reach.deliver
        if isinstance(provider, Meters):  # a capability is found by isinstance: only then is it there
            self.metered_microusd = Meter(provider, self._machines, self._known).metered_microusd

    # -- the four verbs ---------------------------------------------------------------------------------------

    async def offers(self, need: Resources) -> Sequence[Offer]:
        offers = await self._offers.get(need)
        machines = len(await self._in_use())
        return [
            allowed(
                offer,
                backend=self.name,
                options=self._options,
                timing=self._timing,
                machines=machines,
                attended=self._attended,
            )
            for offer in offers
        ]

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        if offer.refused:
            raise LaunchRefused(f"{self.name}: {offer.refused}")
        attempt = self._known(Handle(name=launch.name))
        attempt.launch = launch
        async with attempt.lock:
            await self._take_room(attempt)
            try:
                machine = await self._maker.machine(attempt, self._order(launch, offer))
                attempt.created(machine)
            finally:
                attempt.ordering = False
                attempt.acted(self._clock.time())
                self._watch.nudge()
        return self._handle(launch, machine)

    async def probe(self, handle: Handle) -> Observation:
        attempt = self._known(handle)
        await self._look(attempt)
        return observe(attempt, self._clock.time(), self._timing)

    async def terminate(self, handle: Handle) -> None:
        attempt = self._known(handle)
        attempt.terminated = True
        async with attempt.lock:
            if attempt.never_was:
                await self._remove_leftovers(attempt.name)
                return
            if self._is_being_ended(attempt):
                return
            await self._rescue(attempt)
            self._let_go(attempt)
            await self._end_all(attempt)
            attempt.acted(self._clock.time())
            self._watch.nudge()

    # -- what only some can do --------------------------------------------------------------------------------

    async def inventory(self) -> Sequence[Handle]:
        snapshot = await self._listing.newer_than(self._clock.time())
        chosen = [kept(snapshot.of(name)) for name in sorted(snapshot.alive)]
        return [Handle(name=m.name, native={"id": m.id, "region": m.region}) for m in chosen if m]

    async def check(self) -> Account:
        return await self._provider.check()

    async def leftovers(self) -> Sequence[Leftover]:
        return await self._machines.leftovers()

    async def remove(self, leftover: Leftover) -> None:
        await self._machines.remove(leftover)

    async def shell(self, handle: Handle) -> Shell:
        attempt = self._known(handle)
        await self._look(attempt)
        if not attempt.reachable:
            state = observe(attempt, self._clock.time(), self._timing)
            raise NotFound(f"{handle.name} has no machine to log in to: {state.detail}")
        return await self._reach.shell(attempt)

    async def deliver(self, handle: Handle) -> None:
        """Send what a dead agent left behind. A machine that is gone has taken it along."""
        attempt = self._known(handle)
        if attempt.reachable:
            async with asyncio.timeout(self._timing.deliver_s):
                await self._deliver(attempt)

    async def close(self) -> None:
        """Let go of the machines, which go on without us."""
        await self._watch.close()
        await self._listing.close()
        await self._offers.close()
        for attempt in self._attempts.values():
            self._let_go(attempt)
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._provider.close()

    # -- launching --------------------------------------------------------------------------------------------

    def _order(self, launch: Launch, offer: Offer) -> Order:
        life_s = self._timing.life_s(launch.max_run_s)
        return Order(
            name=launch.name,
            offer=offer,
            public_key=attempt_key(self._secret, launch.name).public_openssh,
            startup=startup_script(life_s),
            max_life_s=life_s,
        )

    def _handle(self, launch: Launch, machine: Machine) -> Handle:
        native = {"id": machine.id, "region": machine.region, "sealed": self._seal.closed(launch)}
        return Handle(name=launch.name, native=native)

    async def _take_room(self, attempt: VmAttempt) -> None:
        others = await self._in_use() - {attempt.name}
        if len(others) >= self._options.max_machines:
            raise NoCapacity(f"{self.name}: {full(len(others), self._options.max_machines)}")
        attempt.ordering = True

    async def _in_use(self) -> set[str]:
        """Names of machines that exist or are being made."""
        snapshot = await self._fresh()
        now = self._clock.time()
        return snapshot.alive | {a.name for a in self._attempts.values() if a.counts(now)}

    # -- looking ----------------------------------------------------------------------------------------------

    def _known(self, handle: Handle) -> VmAttempt:
        """What is known of an attempt; what another process launched is known from its handle."""
        now = self._clock.time()
        attempt = self._attempts.setdefault(
            handle.name, VmAttempt(name=handle.name, since=now, stirred_at=now)
        )
        if attempt.launch is None and handle.native.get("sealed"):
            attempt.launch, attempt.inherited = self._seal.opened(handle.native["sealed"]), True
        if attempt.machine is None and handle.native.get("id"):
            region = handle.native.get("region", "")
            attempt.machine = Machine(
                id=handle.native["id"], name=handle.name, power=Power.STARTING, region=region
            )
        return attempt

    async def _look(self, attempt: VmAttempt) -> None:
        if attempt.settled:
            return
        oldest = max(attempt.look_after, self._oldest())
        self._take_in(attempt, await self._listing.newer_than(oldest, enough=lambda: attempt.taken))
        self._watch.begin()

    async def _fresh(self, after: float = float("-inf")) -> Snapshot:
        """A listing that is not older than the watch lets them become, and not older than `after`."""
        return await self._listing.newer_than(max(after, self._oldest()))

    def _oldest(self) -> float:
        return self._clock.time() - self._timing.calm_s - STALE_S

    def _take_in_all(self, snapshot: Snapshot) -> None:
        for attempt in [*self._attempts.values()]:
            self._take_in(attempt, snapshot)
            now = self._clock.time()
            if attempt.over(now) and now - attempt.stirred_at > REMEMBERED_S:
                self._forget(attempt)

    def _forget(self, attempt: VmAttempt) -> None:
        del self._attempts[attempt.name]
        if attempt.machine is not None:
            self._reach.forget(attempt.machine)

    def _take_in(self, attempt: VmAttempt, snapshot: Snapshot) -> None:
        news = attempt.take_in(snapshot, self._clock.time())
        for twin in twins(snapshot.of(attempt.name), attempt.machine.id if attempt.machine else ""):
            if not self._was_told_to_end(attempt, twin.id):
                self._chore(self._end(attempt, twin))
        if attempt.terminated or attempt.ended or attempt.cut_off:
            self._let_go(attempt)
        elif attempt.reachable and attempt.link is None:
            attempt.link = self._link(attempt, lambda: self._stirred(attempt))
            attempt.link.start()
        if news:
            self._on_change(attempt.name)

    def _stirred(self, attempt: VmAttempt) -> None:
        """The link has news. When it broke or the agent is over, the provider is asked at once."""
        attempt.stirred_at = self._clock.time()
        if attempt.troubled:
            attempt.look_after = attempt.stirred_at
            self._watch.nudge()
        if not attempt.broken:  # what there is to decide then comes with the listing
            self._on_change(attempt.name)

    # -- ending -----------------------------------------------------------------------------------------------

    async def _rescue(self, attempt: VmAttempt) -> None:
        """An agent that died has left reports on the machine: they are sent before it goes, if that is soon done."""
        link = attempt.link
        if link is not None and link.state is LinkState.EXITED and link.exit_code != 0:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._timing.deliver_s):
                    await self._deliver(attempt)

    def _is_being_ended(self, attempt: VmAttempt) -> bool:
        """Everything known of it was ended a moment ago; telling the provider again makes nothing faster."""
        machines = self._listing.latest.of(attempt.name) if self._listing.latest else ()
        ids = {m.id for m in machines} or ({attempt.machine.id} if attempt.machine else set())
        return bool(ids) and all(self._was_told_to_end(attempt, id) for id in ids)

    def _was_told_to_end(self, attempt: VmAttempt, machine_id: str) -> bool:
        since = self._clock.time() - ENDING_S
        return attempt.destroyed.get(machine_id, since) > since

    async def _end_all(self, attempt: VmAttempt) -> None:
        snapshot = await self._fresh(attempt.look_after)
        self._take_in(attempt, snapshot)
        machines = snapshot.of(attempt.name)
        if not machines and attempt.machine is not None and not attempt.listed:
            machines = (attempt.machine,)  # accepted, and not listed yet
        await asyncio.gather(*(self._end(attempt, machine) for machine in machines))
        if not machines:
            await self._remove_leftovers(attempt.name)

    async def _end(self, attempt: VmAttempt, machine: Machine) -> None:
        await self._machines.destroy(machine)
        attempt.destroyed[machine.id] = self._clock.time()

    async def _remove_leftovers(self, name: str) -> None:
        """An order that failed half way may have left a key or an address without a machine."""
        for leftover in await self._machines.leftovers():
            if leftover.name == name:
                await self._machines.remove(leftover)

    def _let_go(self, attempt: VmAttempt) -> None:
        link, attempt.link = attempt.link, None
        if link is not None:
            self._chore(link.stop())

    def _chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._chores.discard(task)
        if not task.cancelled():
            task.exception()  # what failed is seen in the next listing and done again
