"""A backend on top of any VM provider: one lifecycle for all (docs/decisions/0007-rented-machines.md)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from anygpu.backends.contract import AccountStatus, LaunchRequest, Leftover, Observation, ShellAccess
from anygpu.backends.ssh.keys import HostKeyStore, attempt_key
from anygpu.backends.ssh.link import LinkState
from anygpu.backends.vm.access import MachineAccess
from anygpu.backends.vm.attempt import AgentLink, VmAttempt, observe
from anygpu.backends.vm.create import LaunchCipher, MachineCreator, startup_script
from anygpu.backends.vm.machines import (
    MachineListing,
    MachineSnapshot,
    OwnedMachines,
    duplicate_machines,
    owner_tag,
    select_machine,
)
from anygpu.backends.vm.offers import CachedOffers, apply_limits, full_reason
from anygpu.backends.vm.options import VmOptions, VmTiming, timing_from_options
from anygpu.backends.vm.poller import ListingPoller
from anygpu.backends.vm.provider import CloudMachine, MachineOrder, MeteredProvider, PowerState, Provider
from anygpu.errors import LaunchRefused, NoCapacity, NotFound
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class AttemptMeter:
    """The capability of a backend whose provider has a meter."""

    def __init__(
        self, provider: MeteredProvider, machines: OwnedMachines, lookup: Callable[[Handle], VmAttempt]
    ) -> None:
        self._provider = provider
        self._machines = machines
        self._known = lookup

    async def metered_microusd(self, handle: Handle) -> int | None:
        machine = self._known(handle).machine
        return (
            None
            if machine is None
            else await self._provider.metered_microusd(self._machines.with_tag(machine))
        )


SNAPSHOT_SLACK_S = (
    15.0  # how much older than the slowest listing a listing may be before a look waits for another
)
DESTROY_RETRY_S = 30.0  # how long a provider that was told to end a machine is given before it is told again
FORGET_AFTER_S = 172_800.0  # how long what is over is still known: meters are read a day later

MakeLink = Callable[[VmAttempt, Callable[[], None]], AgentLink]
DeliverReports = Callable[[VmAttempt], Awaitable[None]]


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
        pins: HostKeyStore,
        on_change: Callable[[str], None],
        timing: VmTiming | None = None,
        attended: bool = False,
        link: MakeLink | None = None,
        deliver: DeliverReports | None = None,
    ) -> None:
        """`on_change` is told the name of an attempt worth a look; `attended`: this server is always on."""
        self.name = name
        self._provider = provider
        self._options = options
        self._attended = attended
        self._secret = secret
        self._on_change = on_change
        self._timing = timing or timing_from_options(options)
        self._clock = asyncio.get_running_loop()
        self._cipher = LaunchCipher(secret)
        self._machines = OwnedMachines(provider, owner_tag(secret))
        self._attempts: dict[str, VmAttempt] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._offers = CachedOffers(provider.offers, keep_s=self._timing.offers_max_age_s)
        self._listing = MachineListing(
            self._machines.machines, pause_s=self._timing.poll_fast_s, on_listed=self._update_all
        )
        self._poller = ListingPoller(self._listing, self._attempts.values, self._timing)
        self._creator = MachineCreator(
            self._machines,
            self._listing,
            idempotent=provider.idempotent,
            lag_s=provider.listing_lag_s,
        )
        self._access = MachineAccess(
            self._machines,
            user=options.user or provider.user,
            notices=provider.notices,
            port=options.ssh_port,
            secret=secret,
            agent_target=agent_target,
            pins=pins,
            timing=self._timing,
        )
        self._make_link = link or self._access.link
        self._deliver = deliver or self._access.deliver
        if isinstance(
            provider, MeteredProvider
        ):  # a capability is found by isinstance: only then is it there
            self.metered_microusd = AttemptMeter(provider, self._machines, self._attempt_of).metered_microusd

    # -- the four verbs ---------------------------------------------------------------------------------------

    async def offers(self, need: Resources) -> Sequence[Offer]:
        offers = await self._offers.get(need)
        machines = len(await self._machines_in_use())
        return [
            apply_limits(
                offer,
                backend=self.name,
                options=self._options,
                timing=self._timing,
                machines=machines,
                attended=self._attended,
            )
            for offer in offers
        ]

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        if offer.refused:
            raise LaunchRefused(f"{self.name}: {offer.refused}")
        attempt = self._attempt_of(Handle(name=launch.name))
        attempt.launch = launch
        async with attempt.lock:
            await self._reserve_capacity(attempt)
            try:
                machine = await self._creator.find_or_create(attempt, self._order(launch, offer))
                attempt.record_created(machine)
            finally:
                attempt.is_creating = False
                attempt.record_action(self._clock.time())
                self._poller.poll_now()
        return self._handle(launch, machine)

    async def probe(self, handle: Handle) -> Observation:
        attempt = self._attempt_of(handle)
        await self._refresh(attempt)
        return observe(attempt, self._clock.time(), self._timing)

    async def terminate(self, handle: Handle) -> None:
        attempt = self._attempt_of(handle)
        attempt.terminate_requested = True
        async with attempt.lock:
            if attempt.was_never_created:
                await self._remove_leftovers(attempt.name)
                return
            if self._is_being_ended(attempt):
                return
            await self._deliver_reports(attempt)
            self._drop_link(attempt)
            await self._destroy_all(attempt)
            attempt.record_action(self._clock.time())
            self._poller.poll_now()

    # -- what only some can do --------------------------------------------------------------------------------

    async def inventory(self) -> Sequence[Handle]:
        snapshot = await self._listing.newer_than(self._clock.time())
        chosen = [select_machine(snapshot.named(name)) for name in sorted(snapshot.alive)]
        return [Handle(name=m.name, native={"id": m.id, "region": m.region}) for m in chosen if m]

    async def check(self) -> AccountStatus:
        return await self._provider.check()

    async def leftovers(self) -> Sequence[Leftover]:
        return await self._machines.leftovers()

    async def remove(self, leftover: Leftover) -> None:
        await self._machines.remove(leftover)

    async def shell(self, handle: Handle) -> ShellAccess:
        attempt = self._attempt_of(handle)
        await self._refresh(attempt)
        if not attempt.is_reachable:
            state = observe(attempt, self._clock.time(), self._timing)
            raise NotFound(f"{handle.name} has no machine to log in to: {state.detail}")
        return await self._access.shell(attempt)

    async def deliver(self, handle: Handle) -> None:
        """Send what a dead agent left behind. A machine that is gone has taken it along."""
        attempt = self._attempt_of(handle)
        if attempt.is_reachable:
            async with asyncio.timeout(self._timing.delivery_timeout_s):
                await self._deliver(attempt)

    async def close(self) -> None:
        """Let go of the machines, which go on without us."""
        await self._poller.close()
        await self._listing.close()
        await self._offers.close()
        for attempt in self._attempts.values():
            self._drop_link(attempt)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._provider.close()

    # -- launching --------------------------------------------------------------------------------------------

    def _order(self, launch: LaunchRequest, offer: Offer) -> MachineOrder:
        life_s = self._timing.life_s(launch.max_run_s)
        return MachineOrder(
            name=launch.name,
            offer=offer,
            public_key=attempt_key(self._secret, launch.name).public_openssh,
            startup_script=startup_script(life_s),
            max_life_s=life_s,
        )

    def _handle(self, launch: LaunchRequest, machine: CloudMachine) -> Handle:
        native = {"id": machine.id, "region": machine.region, "sealed": self._cipher.encrypt(launch)}
        return Handle(name=launch.name, native=native)

    async def _reserve_capacity(self, attempt: VmAttempt) -> None:
        others = await self._machines_in_use() - {attempt.name}
        if len(others) >= self._options.max_machines:
            raise NoCapacity(f"{self.name}: {full_reason(len(others), self._options.max_machines)}")
        attempt.is_creating = True

    async def _machines_in_use(self) -> set[str]:
        """Names of machines that exist or are being made."""
        snapshot = await self._recent_snapshot()
        now = self._clock.time()
        return snapshot.alive | {a.name for a in self._attempts.values() if a.uses_capacity(now)}

    # -- looking ----------------------------------------------------------------------------------------------

    def _attempt_of(self, handle: Handle) -> VmAttempt:
        """What is known of an attempt; what another process launched is known from its handle."""
        now = self._clock.time()
        attempt = self._attempts.setdefault(
            handle.name, VmAttempt(name=handle.name, first_seen_at=now, changed_at=now)
        )
        if attempt.launch is None and handle.native.get("sealed"):
            attempt.launch, attempt.from_earlier_process = self._cipher.decrypt(handle.native["sealed"]), True
        if attempt.machine is None and handle.native.get("id"):
            region = handle.native.get("region", "")
            attempt.machine = CloudMachine(
                id=handle.native["id"], name=handle.name, power=PowerState.STARTING, region=region
            )
        return attempt

    async def _refresh(self, attempt: VmAttempt) -> None:
        if attempt.is_final:
            return
        oldest = max(attempt.list_after, self._oldest_usable())
        self._update(attempt, await self._listing.newer_than(oldest, enough=lambda: attempt.is_reclaimed))
        self._poller.start()

    async def _recent_snapshot(self, after: float = float("-inf")) -> MachineSnapshot:
        """A listing that is not older than the watch lets them become, and not older than `after`."""
        return await self._listing.newer_than(max(after, self._oldest_usable()))

    def _oldest_usable(self) -> float:
        return self._clock.time() - self._timing.poll_idle_s - SNAPSHOT_SLACK_S

    def _update_all(self, snapshot: MachineSnapshot) -> None:
        for attempt in [*self._attempts.values()]:
            self._update(attempt, snapshot)
            now = self._clock.time()
            if attempt.is_over(now) and now - attempt.changed_at > FORGET_AFTER_S:
                self._forget(attempt)

    def _forget(self, attempt: VmAttempt) -> None:
        del self._attempts[attempt.name]
        if attempt.machine is not None:
            self._access.forget(attempt.machine)

    def _update(self, attempt: VmAttempt, snapshot: MachineSnapshot) -> None:
        news = attempt.update(snapshot, self._clock.time())
        for twin in duplicate_machines(
            snapshot.named(attempt.name), attempt.machine.id if attempt.machine else ""
        ):
            if not self._was_destroyed_recently(attempt, twin.id):
                self._start_task(self._destroy(attempt, twin))
        if attempt.terminate_requested or attempt.has_ended or attempt.is_cut_off:
            self._drop_link(attempt)
        elif attempt.is_reachable and attempt.link is None:
            attempt.link = self._make_link(attempt, lambda: self._link_changed(attempt))
            attempt.link.start()
        if news:
            self._on_change(attempt.name)

    def _link_changed(self, attempt: VmAttempt) -> None:
        """The link has news. When it broke or the agent is over, the provider is asked at once."""
        attempt.changed_at = self._clock.time()
        if attempt.is_link_down:
            attempt.list_after = attempt.changed_at
            self._poller.poll_now()
        if not attempt.is_link_broken:  # what there is to decide then comes with the listing
            self._on_change(attempt.name)

    # -- ending -----------------------------------------------------------------------------------------------

    async def _deliver_reports(self, attempt: VmAttempt) -> None:
        """An agent that died has left reports on the machine: they are sent before it goes, if that is soon done."""
        link = attempt.link
        if link is not None and link.state is LinkState.EXITED and link.exit_code != 0:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._timing.delivery_timeout_s):
                    await self._deliver(attempt)

    def _is_being_ended(self, attempt: VmAttempt) -> bool:
        """Everything known of it was ended a moment ago; telling the provider again makes nothing faster."""
        machines = self._listing.latest.named(attempt.name) if self._listing.latest else ()
        ids = {m.id for m in machines} or ({attempt.machine.id} if attempt.machine else set())
        return bool(ids) and all(self._was_destroyed_recently(attempt, id) for id in ids)

    def _was_destroyed_recently(self, attempt: VmAttempt, machine_id: str) -> bool:
        since = self._clock.time() - DESTROY_RETRY_S
        return attempt.destroyed_at.get(machine_id, since) > since

    async def _destroy_all(self, attempt: VmAttempt) -> None:
        snapshot = await self._recent_snapshot(attempt.list_after)
        self._update(attempt, snapshot)
        machines = snapshot.named(attempt.name)
        if not machines and attempt.machine is not None and not attempt.was_listed:
            machines = (attempt.machine,)  # accepted, and not listed yet
        await asyncio.gather(*(self._destroy(attempt, machine) for machine in machines))
        if not machines:
            await self._remove_leftovers(attempt.name)

    async def _destroy(self, attempt: VmAttempt, machine: CloudMachine) -> None:
        await self._machines.destroy(machine)
        attempt.destroyed_at[machine.id] = self._clock.time()

    async def _remove_leftovers(self, name: str) -> None:
        """An order that failed half way may have left a key or an address without a machine."""
        for leftover in await self._machines.leftovers():
            if leftover.name == name:
                await self._machines.remove(leftover)

    def _drop_link(self, attempt: VmAttempt) -> None:
        link, attempt.link = attempt.link, None
        if link is not None:
            self._start_task(link.stop())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # what failed is seen in the next listing and done again
