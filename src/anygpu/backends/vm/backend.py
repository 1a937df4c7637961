"""A backend for rented machines. All VM providers share it.

docs/decisions/0007-rented-machines.md explains the design.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from anygpu.backends.contract import (
    AccountStatus,
    LaunchRequest,
    Leftover,
    NativeRequest,
    Observation,
    ShellLogin,
    node_name,
    split_node_name,
)
from anygpu.backends.gangs import attempt_names, combine_observations, node_launches
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
    machine_tag,
    select_machine,
)
from anygpu.backends.vm.offers import CachedOffers, apply_limits, full_reason
from anygpu.backends.vm.options import VmOptions, VmTiming, timing_from_options
from anygpu.backends.vm.poller import ListingPoller
from anygpu.backends.vm.provider import (
    CloudMachine,
    MachineOrder,
    MeteredProvider,
    NativeRequestProvider,
    PowerState,
    Provider,
)
from anygpu.errors import LaunchError, LaunchRefused, NoCapacity, NotFound
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class NativeRequests:
    """Shows the requests of a launch, for providers that can do that."""

    def __init__(
        self,
        provider: NativeRequestProvider,
        machines: OwnedMachines,
        order: Callable[[LaunchRequest, Offer], MachineOrder],
    ) -> None:
        self._provider, self._machines, self._order = provider, machines, order

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        order = self._machines.with_tagged_name(self._order(launch, offer))
        return await self._provider.native_requests(order)


class AttemptMeter:
    """Reads what the provider has charged for an attempt, for providers that report it."""

    def __init__(
        self, provider: MeteredProvider, machines: OwnedMachines, lookup: Callable[[Handle], list[VmAttempt]]
    ) -> None:
        self._provider = provider
        self._machines = machines
        self._nodes_of = lookup

    async def metered_microusd(self, handle: Handle) -> int | None:
        costs = [await self._read(node.machine) for node in self._nodes_of(handle)]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    async def _read(self, machine: CloudMachine | None) -> int | None:
        if machine is None:
            return None
        return await self._provider.metered_microusd(self._machines.with_tag(machine))


SNAPSHOT_SLACK_S = 15.0  # a listing may be this much older than the idle poll interval
DESTROY_RETRY_S = 30.0  # time until a destroy call is repeated
FORGET_AFTER_S = 172_800.0  # ended attempts are kept, because meters are read a day later

MakeLink = Callable[[VmAttempt, Callable[[], None]], AgentLink]
DeliverReports = Callable[[VmAttempt], Awaitable[None]]


class VmBackend:
    """Rents a machine for each attempt. Must be created in the event loop it runs in."""

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
        """Create the backend.

        `on_change` is called with the name of an attempt that should be probed. `attended`: this server is
        always on, so it is certain to end every machine it rents.
        """
        self.name = name
        self._provider = provider
        self._options = options
        self._attended = attended
        self._secret = secret
        self._on_change = on_change
        self._timing = timing or timing_from_options(options)
        self._clock = asyncio.get_running_loop()
        self._cipher = LaunchCipher(secret)
        self._machines = OwnedMachines(provider, machine_tag(secret))
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
        if isinstance(provider, NativeRequestProvider):
            self.native_requests = NativeRequests(provider, self._machines, self._order).native_requests
        if isinstance(provider, MeteredProvider):  # isinstance finds this capability by its method
            self.metered_microusd = AttemptMeter(provider, self._machines, self._nodes_of).metered_microusd

    # -- backend methods --------------------------------------------------------------------------------------

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
                connects_nodes=getattr(self._provider, "connects_nodes", False),
            )
            for offer in offers
        ]

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        if offer.refused:
            raise LaunchRefused(f"The backend {self.name} does not allow this machine: {offer.refused}")
        if launch.nodes == 1:
            await self._reserve_capacity([launch.name])
            return self._handle(launch, [await self._create(launch, offer)])
        return await self._launch_gang(launch, offer)

    async def _launch_gang(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Create a machine for each node, or destroy those that were created if one is refused.

        After any other error the machines stay: the call is repeated, and creates only those that are missing.
        """
        nodes = node_launches(launch)
        await self._reserve_capacity([node.name for node in nodes])
        made = await asyncio.gather(*(self._create(node, offer) for node in nodes), return_exceptions=True)
        errors = [each for each in made if isinstance(each, BaseException)]
        refusals = [error for error in errors if isinstance(error, LaunchError)]
        if not errors:
            return self._handle(launch, [each for each in made if isinstance(each, CloudMachine)])
        if not refusals:
            raise errors[0]
        attempts = [self._attempt_of(Handle(name=node.name)) for node in nodes]
        # What cannot be destroyed now is destroyed later: the caller ends an attempt that was refused.
        await asyncio.gather(*map(self._terminate_machine, attempts), return_exceptions=True)
        raise refusals[0]

    async def _create(self, launch: LaunchRequest, offer: Offer) -> CloudMachine:
        attempt = self._attempt_of(Handle(name=launch.name))
        attempt.launch = launch
        async with attempt.lock:
            try:
                machine = await self._creator.find_or_create(attempt, self._order(launch, offer))
                attempt.record_created(machine)
            finally:
                attempt.is_creating = False
                attempt.record_action(self._clock.time())
                self._poller.poll_now()
        return machine

    async def probe(self, handle: Handle) -> Observation:
        await self._refresh(self._attempt_of(handle))
        nodes = self._nodes_of(handle)
        for node in nodes[1:]:
            await self._refresh(node)
        observed = [observe(node, self._clock.time(), self._timing) for node in nodes]
        return observed[0] if len(observed) == 1 else combine_observations(observed)

    async def terminate(self, handle: Handle) -> None:
        if not handle.native and handle.name not in self._attempts:
            await self._recent_snapshot()  # it shows whether the attempt has several machines
        await asyncio.gather(*(self._terminate_machine(node) for node in self._nodes_of(handle)))

    async def _terminate_machine(self, attempt: VmAttempt) -> None:
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

    # -- optional capabilities --------------------------------------------------------------------------------

    async def inventory(self) -> Sequence[Handle]:
        snapshot = await self._listing.newer_than(self._clock.time())
        gangs = {name for name in attempt_names(snapshot.alive) if self._is_gang(name, snapshot)}
        chosen = [
            select_machine(snapshot.of_attempt(name))
            for name in sorted(snapshot.alive)
            if split_node_name(name)[0] not in gangs
        ]
        handles = [Handle(name=m.name, native={"id": m.id, "region": m.region}) for m in chosen if m]
        return [*handles, *(Handle(name=name) for name in sorted(gangs))]

    async def check(self) -> AccountStatus:
        return await self._provider.check()

    async def leftovers(self) -> Sequence[Leftover]:
        return await self._machines.leftovers()

    async def remove(self, leftover: Leftover) -> None:
        await self._machines.remove(leftover)

    async def shell(self, handle: Handle) -> ShellLogin:
        attempt = self._attempt_of(handle)
        await self._refresh(attempt)
        if not attempt.is_reachable:
            state = observe(attempt, self._clock.time(), self._timing)
            raise NotFound(
                f"The attempt {handle.name} has no machine that you could log in to: {state.detail}. Try again "
                "when the job trains."
            )
        return await self._access.shell(attempt)

    async def deliver(self, handle: Handle) -> None:
        """Send the reports that a dead agent left on its machine.

        Does nothing if the machine cannot be reached.
        """
        async with asyncio.timeout(self._timing.delivery_timeout_s):
            for attempt in self._nodes_of(handle):
                if attempt.is_reachable:
                    await self._deliver(attempt)

    async def close(self) -> None:
        """Disconnect from all machines. The machines keep running."""
        await self._poller.close()
        await self._listing.close()
        await self._offers.close()
        for attempt in self._attempts.values():
            self._drop_link(attempt)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._provider.close()

    # -- launch -----------------------------------------------------------------------------------------------

    def _order(self, launch: LaunchRequest, offer: Offer) -> MachineOrder:
        life_s = self._timing.life_s(launch.max_run_s)
        return MachineOrder(
            name=launch.name,
            offer=offer,
            public_key=attempt_key(self._secret, launch.name).public_openssh,
            startup_script=startup_script(life_s),
            max_life_s=life_s,
        )

    def _handle(self, launch: LaunchRequest, machines: Sequence[CloudMachine]) -> Handle:
        first, *others = machines
        sealed = self._cipher.encrypt(launch)
        native: dict[str, Any] = {"id": first.id, "region": first.region, "sealed": sealed}
        if others:
            native["nodes"] = [{"id": each.id, "region": each.region} for each in others]
        return Handle(name=launch.name, native=native)

    async def _reserve_capacity(self, names: Sequence[str]) -> None:
        """Reserve places for all machines of an attempt, or raise NoCapacity and reserve nothing."""
        others = await self._machines_in_use() - set(names)
        most = self._options.max_machines
        if len(others) + len(names) > most:
            many = "another machine" if len(names) == 1 else f"{len(names)} more machines"
            raise NoCapacity(
                f"The backend {self.name} cannot create {many}: {full_reason(len(others), most)}"
            )
        for name in names:
            self._attempt_of(Handle(name=name)).is_creating = True

    async def _machines_in_use(self) -> set[str]:
        """Return the names of attempts whose machines exist or are being created."""
        snapshot = await self._recent_snapshot()
        now = self._clock.time()
        return snapshot.alive | {a.name for a in self._attempts.values() if a.uses_capacity(now)}

    # -- probe ------------------------------------------------------------------------------------------------

    def _nodes_of(self, handle: Handle) -> list[VmAttempt]:
        """Return the state of each machine of an attempt, node 0 first.

        If only the name of the attempt is known, its further machines are those that this process or the newest
        listing knows.
        """
        first = self._attempt_of(handle)
        sealed, nodes = handle.native.get("sealed"), handle.native.get("nodes")
        if nodes:
            natives = [{**native, **({"sealed": sealed} if sealed else {})} for native in nodes]
            others = [
                Handle(name=node_name(handle.name, n), native=each) for n, each in enumerate(natives, 1)
            ]
            return [first, *map(self._attempt_of, others)]
        listed = self._listing.latest.machines if self._listing.latest else {}
        names = {name for name in (*self._attempts, *listed) if split_node_name(name)[0] == handle.name}
        further = sorted(names - {handle.name}, key=lambda name: split_node_name(name)[1])
        return [first, *(self._attempt_of(Handle(name=name)) for name in further)]

    def _is_gang(self, name: str, snapshot: MachineSnapshot) -> bool:
        """Return whether an attempt has or had machines besides the one of node 0."""
        return any(
            each != name and split_node_name(each)[0] == name for each in (*snapshot.alive, *self._attempts)
        )

    def _attempt_of(self, handle: Handle) -> VmAttempt:
        """Return the state of an attempt.

        If another server process launched the attempt, its state is restored from the handle: the stored reference to
        it.
        """
        now = self._clock.time()
        attempt = self._attempts.setdefault(
            handle.name, VmAttempt(name=handle.name, first_seen_at=now, changed_at=now)
        )
        if attempt.launch is None and handle.native.get("sealed"):
            launch = self._cipher.decrypt(handle.native["sealed"])
            attempt.launch = launch and replace(launch, name=handle.name)
            attempt.from_earlier_process = True
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
        """Return a list of the provider's machines that is recent enough for scheduling.

        It was requested at or after `after` (event loop's clock).
        """
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
        for duplicate in duplicate_machines(
            snapshot.of_attempt(attempt.name), attempt.machine.id if attempt.machine else ""
        ):
            if not self._was_destroyed_recently(attempt, duplicate.id):
                self._start_task(self._destroy(attempt, duplicate))
        if attempt.terminate_requested or attempt.has_ended or attempt.is_cut_off:
            self._drop_link(attempt)
        elif attempt.is_reachable and attempt.link is None:
            attempt.link = self._make_link(attempt, lambda: self._link_changed(attempt))
            attempt.link.start()
        if news:
            self._on_change(split_node_name(attempt.name)[0])

    def _link_changed(self, attempt: VmAttempt) -> None:
        """Handle a change of the connection to an attempt's agent.

        If the agent cannot be reached or has ended, list the machines at once: the list may show why.
        """
        attempt.changed_at = self._clock.time()
        if attempt.is_link_down:
            attempt.list_after = attempt.changed_at
            self._poller.poll_now()
        if not attempt.is_link_broken:  # if it is broken, the new listing reports the change
            self._on_change(split_node_name(attempt.name)[0])

    # -- terminate --------------------------------------------------------------------------------------------

    async def _deliver_reports(self, attempt: VmAttempt) -> None:
        """Send the reports of a dead agent before its machine is destroyed. Gives up after a timeout."""
        link = attempt.link
        if link is not None and link.state is LinkState.EXITED and link.exit_code != 0:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._timing.delivery_timeout_s):
                    await self._deliver(attempt)

    def _is_being_ended(self, attempt: VmAttempt) -> bool:
        """Return whether all machines of the attempt were destroyed within the last DESTROY_RETRY_S."""
        machines = self._listing.latest.of_attempt(attempt.name) if self._listing.latest else ()
        ids = {m.id for m in machines} or ({attempt.machine.id} if attempt.machine else set())
        return bool(ids) and all(self._was_destroyed_recently(attempt, id) for id in ids)

    def _was_destroyed_recently(self, attempt: VmAttempt, machine_id: str) -> bool:
        since = self._clock.time() - DESTROY_RETRY_S
        return attempt.destroyed_at.get(machine_id, since) > since

    async def _destroy_all(self, attempt: VmAttempt) -> None:
        snapshot = await self._recent_snapshot(attempt.list_after)
        self._update(attempt, snapshot)
        machines = snapshot.of_attempt(attempt.name)
        if not machines and attempt.machine is not None and not attempt.was_listed:
            machines = (attempt.machine,)  # created, but not listed yet
        await asyncio.gather(*(self._destroy(attempt, machine) for machine in machines))
        if not machines:
            await self._remove_leftovers(attempt.name)

    async def _destroy(self, attempt: VmAttempt, machine: CloudMachine) -> None:
        await self._machines.destroy(machine)
        attempt.destroyed_at[machine.id] = self._clock.time()

    async def _remove_leftovers(self, name: str) -> None:
        """Remove keys and addresses that a failed launch left behind."""
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
            task.exception()  # mark as retrieved; after the next listing, failed calls are repeated
