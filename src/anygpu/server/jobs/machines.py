"""Compare the machines that providers list with the attempts in the journal."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anygpu.backends.contract import Backend, Leftover, SupportsInventory, SupportsLeftovers, split_node_name
from anygpu.control.ids import read_attempt_name
from anygpu.errors import JobDamaged, NotFound
from anygpu.events.offers import Handle
from anygpu.events.view import AttemptView, JobView
from anygpu.server.jobs.queue import is_visible
from anygpu.store.journal import Journal
from anygpu.store.scope import SYSTEM, Scope

LOCAL = "local"
TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedMachine:
    """A machine of an attempt, not yet confirmed to be gone. `listed` tells whether the provider lists it."""

    backend: str
    view: JobView
    attempt: AttemptView
    listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanMachine:
    """A machine that the provider lists and no attempt owns. `origin` is the ended attempt of its name, if known."""

    backend: str
    handle: Handle
    origin: AttemptView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInventory:
    """All machines and leftover resources at one moment."""

    owned: tuple[OwnedMachine, ...]
    orphans: tuple[OrphanMachine, ...]
    leftovers: tuple[tuple[str, Leftover], ...]
    unreachable: Mapping[str, str]  # reason by backend


async def load_inventory(backends: Mapping[str, Backend], journal: Journal) -> MachineInventory:
    """List the machines of every backend except the local one.

    The journal is read after the machines are listed. An attempt is recorded before its machine is created, so
    a listed machine that is not in the journal has no owner.
    """
    remote = {name: backend for name, backend in backends.items() if name != LOCAL}
    listings = await asyncio.gather(*(_list_backend(backend) for backend in remote.values()))
    live = await journal.live()
    listed = dict(zip(remote, listings, strict=True))
    names = {
        (backend, handle.name)
        for backend, listing in listed.items()
        if not isinstance(listing, str)
        for handle in listing[0]
    }
    owned = tuple(
        OwnedMachine(backend=a.offer.backend, view=view, attempt=a, listed=(a.offer.backend, a.name) in names)
        for view in live
        for a in view.attempts
        if not a.is_released and a.offer.backend != LOCAL
    )
    owned_names = {(each.backend, each.attempt.name) for each in owned}
    owned_names |= {each for each in names if _job_of(each[1]) in {view.id for view in live if view.damaged}}
    return MachineInventory(
        owned=owned,
        orphans=tuple(_orphans(listed, owned_names)),
        leftovers=tuple(_leftovers(listed, {name for _, name in owned_names})),
        unreachable={name: listing for name, listing in listed.items() if isinstance(listing, str)},
    )


async def with_origins(journal: Journal, orphans: Sequence[OrphanMachine]) -> list[OrphanMachine]:
    """Return the orphans with the attempts that they were rented for, as far as the journal has them."""
    return [replace(each, origin=await _origin(journal, each)) for each in orphans]


async def _origin(journal: Journal, orphan: OrphanMachine) -> AttemptView | None:
    named = read_attempt_name(split_node_name(orphan.handle.name)[0])
    if named is None:
        return None
    try:
        view = await journal.view(SYSTEM, named[0])
    except (NotFound, JobDamaged):
        return None  # the machine belongs to another server, or its job was deleted or is damaged
    attempt = view.attempts[named[1] - 1] if 0 < named[1] <= len(view.attempts) else None
    return attempt if attempt is not None and attempt.offer.backend == orphan.backend else None


def _job_of(name: str) -> str | None:
    named = read_attempt_name(name)
    return named[0] if named else None


def visible_machines(inventory: MachineInventory, scope: Scope) -> tuple[OwnedMachine, ...]:
    """Return the machines that belong to the project of `scope`."""
    return tuple(machine for machine in inventory.owned if is_visible(machine.view, scope))


BackendListing = tuple[Sequence[Handle], Sequence[Leftover]] | str


async def _list_backend(backend: Backend) -> BackendListing:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            handles = await backend.inventory() if isinstance(backend, SupportsInventory) else ()
            leftovers = await backend.leftovers() if isinstance(backend, SupportsLeftovers) else ()
    except Exception as error:  # noqa: BLE001  one failing adapter must not hide the rest
        return str(error) or type(error).__name__
    return handles, leftovers


def _orphans(listed: Mapping[str, BackendListing], owned_names: set[tuple[str, str]]) -> list[OrphanMachine]:
    return [
        OrphanMachine(backend=backend, handle=handle)
        for backend, listing in listed.items()
        if not isinstance(listing, str)
        for handle in listing[0]
        if (backend, handle.name) not in owned_names
    ]


def _leftovers(listed: Mapping[str, BackendListing], names: set[str]) -> list[tuple[str, Leftover]]:
    return [
        (backend, leftover)
        for backend, listing in listed.items()
        if not isinstance(listing, str)
        for leftover in listing[1]
        if leftover.name
        and split_node_name(leftover.name)[0]
        not in names  # a resource without a name is shared by several machines
    ]
