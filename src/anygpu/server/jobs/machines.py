"""What of ours exists at the providers, beside what the journal says should."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import Backend, Leftover, ListsLeftovers, ListsResources
from anygpu.events.offers import Handle
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope

LOCAL = "local"
TIMEOUT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedMachine:
    """A machine that belongs to an attempt which is not released yet."""

    backend: str
    view: JobView
    attempt: AttemptView
    listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanMachine:
    """A machine the provider lists and no attempt of the journal owns."""

    backend: str
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInventory:
    """One look at everything."""

    owned: tuple[OwnedMachine, ...]
    orphans: tuple[OrphanMachine, ...]
    leftovers: tuple[tuple[str, Leftover], ...]
    unreachable: Mapping[str, str]  # backends that did not answer, and why


async def load_inventory(backends: Mapping[str, Backend], journal: Journal) -> MachineInventory:
    """Machines elsewhere: what runs on this one is nobody's bill.

    The journal is read last: an attempt is written down before its machine is made, so what it does not know then
    has no owner.
    """
    elsewhere = {name: backend for name, backend in backends.items() if name != LOCAL}
    answers = await asyncio.gather(*(_list_backend(backend) for backend in elsewhere.values()))
    live = await journal.live()
    listed = dict(zip(elsewhere, answers, strict=True))
    names = {
        (backend, handle.name)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for handle in answer[0]
    }
    owned = tuple(
        OwnedMachine(backend=a.offer.backend, view=view, attempt=a, listed=(a.offer.backend, a.name) in names)
        for view in live
        for a in view.attempts
        if not a.is_released and a.offer.backend != LOCAL
    )
    mine = {(each.backend, each.attempt.name) for each in owned}
    return MachineInventory(
        owned=owned,
        orphans=tuple(_orphans(listed, mine)),
        leftovers=tuple(_leftovers(listed, {name for _, name in mine})),
        unreachable={name: answer for name, answer in listed.items() if isinstance(answer, str)},
    )


def visible_machines(found: MachineInventory, scope: Scope) -> tuple[OwnedMachine, ...]:
    """Only what belongs to the asker's project."""
    return tuple(
        each
        for each in found.owned
        if (each.view.organisation, each.view.project) == (scope.organisation, scope.project)
    )


BackendListing = tuple[Sequence[Handle], Sequence[Leftover]] | str


async def _list_backend(backend: Backend) -> BackendListing:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            handles = await backend.inventory() if isinstance(backend, ListsResources) else ()
            leftovers = await backend.leftovers() if isinstance(backend, ListsLeftovers) else ()
    except Exception as error:  # noqa: BLE001  whatever an adapter raises, the others are still shown
        return str(error) or type(error).__name__
    return handles, leftovers


def _orphans(listed: Mapping[str, BackendListing], mine: set[tuple[str, str]]) -> list[OrphanMachine]:
    return [
        OrphanMachine(backend=backend, handle=handle)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for handle in answer[0]
        if (backend, handle.name) not in mine
    ]


def _leftovers(listed: Mapping[str, BackendListing], names: set[str]) -> list[tuple[str, Leftover]]:
    return [
        (backend, leftover)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for leftover in answer[1]
        if leftover.name and leftover.name not in names  # what carries no name is shared, and stays
    ]
