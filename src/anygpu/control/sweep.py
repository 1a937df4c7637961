"""Remove resources at a provider that belong to no live attempt: machines, addresses, disks, keys, groups."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import (
    Backend,
    Leftover,
    MachineState,
    Observation,
    SupportsInventory,
    SupportsLeftovers,
    split_node_name,
)
from anygpu.control.accounting.money import orphan_usage
from anygpu.control.clock import Clock
from anygpu.control.ids import read_attempt_name
from anygpu.control.policy import ControlPolicy
from anygpu.errors import JobDamaged, NotFound
from anygpu.events.offers import Handle
from anygpu.events.types import Event, OrphanEnded
from anygpu.events.view import JobView
from anygpu.store.journal import Guard, Journal
from anygpu.store.scope import SYSTEM

MACHINE = "machine"
Key = tuple[str, str, str]  # backend, kind, name and id


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanResource:
    """A resource at a provider that has an attempt's name but belongs to no live attempt."""

    backend: str
    kind: str  # machine | address | disk | key | group
    name: str
    id: str = ""
    region: str = ""
    since_ms: int = 0  # when the resource was first found without an owner

    @property
    def key(self) -> Key:
        return self.backend, self.kind, f"{self.name} {self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedOrphan:
    """A machine without an owner that was terminated, and what the provider last reported about it."""

    name: str
    observation: Observation


class Sweeper:
    """Finds resources at providers that no attempt owns, by comparing each provider's list with the journal.

    Resources that have had no owner for `sweep_grace_s` are removed.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        clock: Clock,
        policy: ControlPolicy,
        report: Callable[[str, Exception], None],
    ) -> None:
        self._backends = backends
        self._clock = clock
        self._policy = policy
        self._report = report
        self._unowned: dict[
            str, dict[Key, tuple[float, OrphanResource]]
        ] = {}  # by backend, with the time of discovery
        self._ending: dict[
            tuple[str, str], int
        ] = {}  # (backend, name) -> number of probes since the termination

    def orphans(self) -> list[OrphanResource]:
        """Return the machines and resources without an owner that the last sweeps found, oldest first."""
        known = [orphan for found in self._unowned.values() for _, orphan in found.values()]
        return sorted(known, key=lambda orphan: (orphan.since_ms, orphan.key))

    async def run(self, live: Sequence[JobView], damaged: Mapping[str, float]) -> None:
        """Sweep every backend.

        An error with one backend or resource does not stop the sweep of the others. `damaged` has the jobs
        whose events are damaged, and when this was found out. Their machines are kept for `damaged_grace_s`,
        in case the database is restored. After that they are removed, because nothing that they do can be
        recorded.
        """
        owned = {attempt.name for view in live for attempt in view.attempts if not attempt.is_released}
        kept_since = self._clock.monotonic() - self._policy.damaged_grace_s
        kept_jobs = {job_id for job_id, since in damaged.items() if since > kept_since}

        def is_owned(name: str) -> bool:
            attempt, _ = split_node_name(name)
            named = read_attempt_name(attempt)
            return attempt in owned or (named is not None and named[0] in kept_jobs)

        for backend in [*self._backends.values()]:
            sweep = self._sweep_backend(backend, is_owned)
            await self._report_errors(backend, f"listing {backend.name}", sweep)

    async def collect_ended(self) -> list[EndedOrphan]:
        """Return the machines that earlier sweeps terminated and that are now confirmed gone."""
        gone: list[EndedOrphan] = []
        for backend_name, name in [*self._ending]:
            backend = self._backends.get(backend_name)
            if backend is None:
                self._ending.pop((backend_name, name))
            else:
                await self._report_errors(
                    backend, f"looking for {name}", self._probe_ended(backend, name, gone)
                )
        return gone

    async def _sweep_backend(self, backend: Backend, is_owned: Callable[[str], bool]) -> None:
        now, now_ms, known = (
            self._clock.monotonic(),
            self._clock.wall_ms(),
            self._unowned.get(backend.name, {}),
        )
        things = [*await _list_machines(backend, now_ms), *await _list_leftovers(backend, now_ms)]
        found = {
            thing.key: known.get(thing.key, (now, thing)) for thing in things if not is_owned(thing.name)
        }
        self._unowned[backend.name] = found
        for since, orphan in found.values():
            if now - since >= self._policy.sweep_grace_s:
                await self._report_errors(backend, f"ending {orphan.name}", self._remove(backend, orphan))

    async def _remove(self, backend: Backend, orphan: OrphanResource) -> None:
        if orphan.kind == MACHINE:
            self._ending.setdefault((backend.name, orphan.name), 0)
            await backend.terminate(Handle(name=orphan.name))
        elif isinstance(backend, SupportsLeftovers):
            await backend.remove(
                Leftover(kind=orphan.kind, id=orphan.id, name=orphan.name, region=orphan.region)
            )

    async def _probe_ended(self, backend: Backend, name: str, gone: list[EndedOrphan]) -> None:
        observation = await backend.probe(Handle(name=name))
        if observation.state is MachineState.GONE:
            gone.append(EndedOrphan(name=name, observation=observation))
        looks = self._ending.pop((backend.name, name)) + 1
        if observation.state is not MachineState.GONE and looks < MAX_PROBES:
            self._ending[backend.name, name] = looks

    async def _report_errors(self, backend: Backend, what: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  whatever an adapter raises
            self._report(f"sweeping {backend.name}: {what} failed and will be tried again", error)


class OrphanLedger:
    """Records the cost of machines that appeared after their attempt had ended."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal, self._clock = journal, clock

    async def record(self, orphan: EndedOrphan, guard: Guard) -> None:
        """Add the cost of the machine to its attempt, once the cost of the attempt itself is recorded."""
        named = read_attempt_name(orphan.name)
        if named is None:
            return
        job_id, number = named
        at_ms = self._clock.wall_ms()

        def decide(view: JobView) -> list[Event]:
            attempt = view.attempts[number - 1] if number <= len(view.attempts) else None
            if attempt is None or not attempt.is_released:
                return []
            usage = orphan_usage(attempt, orphan.observation, at_ms)
            return [] if usage is None else [OrphanEnded(attempt=number, usage=usage)]

        try:
            await self._journal.transact(SYSTEM, job_id, decide, at_ms=at_ms, guard=guard)
        except (NotFound, JobDamaged):
            return  # the machine belongs to another server, or its job was deleted or is damaged


MAX_PROBES = 20


async def _list_machines(backend: Backend, now_ms: int) -> list[OrphanResource]:
    if not isinstance(backend, SupportsInventory):
        return []
    names = dict.fromkeys(handle.name for handle in await backend.inventory())
    return [OrphanResource(backend=backend.name, kind=MACHINE, name=name, since_ms=now_ms) for name in names]


async def _list_leftovers(backend: Backend, now_ms: int) -> list[OrphanResource]:
    """List resources other than machines that have an attempt's name.

    Resources without such a name are shared by all attempts and are kept.
    """
    if not isinstance(backend, SupportsLeftovers):
        return []
    return [
        OrphanResource(
            backend=backend.name,
            kind=each.kind,
            name=each.name,
            id=each.id,
            region=each.region,
            since_ms=now_ms,
        )
        for each in await backend.leftovers()
        if each.name
    ]
