"""What of ours exists at the providers, beside what the journal says should."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anygpu.backends.contract import Backend, Leftover, ListsLeftovers, ListsResources
from anygpu.events.facts import Handle
from anygpu.events.view import AttemptView, JobView
from anygpu.store.journal import Journal
from anygpu.store.scope import Scope

HERE = "local"
ANSWER_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A machine that belongs to an attempt which is not released yet."""

    backend: str
    view: JobView
    attempt: AttemptView
    listed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A machine the provider lists and no attempt of the journal owns."""

    backend: str
    handle: Handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One look at everything."""

    owned: tuple[Owned, ...]
    orphans: tuple[Orphan, ...]
    leftovers: tuple[tuple[str, Leftover], ...]
    silent: Mapping[str, str]  # backends that did not answer, and why


async def look(backends: Mapping[str, Backend], journal: Journal) -> Found:
    """Machines elsewhere: what runs on this one is nobody's bill.

    The journal is read last: an attempt is written down before its machine is made, so what it does not know then
    has no owner.
    """
    elsewhere = {name: backend for name, backend in backends.items() if name != HERE}
    answers = await asyncio.gather(*(_asked(backend) for backend in elsewhere.values()))
    live = await journal.live()
    listed = dict(zip(elsewhere, answers, strict=True))
    names = {
        (backend, handle.name)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for handle in answer[0]
    }
    owned = tuple(
        Owned(backend=a.offer.backend, view=view, attempt=a, listed=(a.offer.backend, a.name) in names)
        for view in live
        for a in view.attempts
        if not a.released and a.offer.backend != HERE
    )
    mine = {(each.backend, each.attempt.name) for each in owned}
    return Found(
        owned=owned,
        orphans=tuple(_orphans(listed, mine)),
        leftovers=tuple(_leftovers(listed, {name for _, name in mine})),
        silent={name: answer for name, answer in listed.items() if isinstance(answer, str)},
    )


def theirs(found: Found, scope: Scope) -> tuple[Owned, ...]:
    """Only what belongs to the asker's project."""
    return tuple(
        each
        for each in found.owned
        if (each.view.organisation, each.view.project) == (scope.organisation, scope.project)
    )


Answer = tuple[Sequence[Handle], Sequence[Leftover]] | str


async def _asked(backend: Backend) -> Answer:
    try:
        async with asyncio.timeout(ANSWER_S):
            handles = await backend.inventory() if isinstance(backend, ListsResources) else ()
            leftovers = await backend.leftovers() if isinstance(backend, ListsLeftovers) else ()
    except Exception as error:  # noqa: BLE001  whatever an adapter raises, the others are still shown
        return str(error) or type(error).__name__
    return handles, leftovers


def _orphans(listed: Mapping[str, Answer], mine: set[tuple[str, str]]) -> list[Orphan]:
    return [
        Orphan(backend=backend, handle=handle)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for handle in answer[0]
        if (backend, handle.name) not in mine
    ]


def _leftovers(listed: Mapping[str, Answer], names: set[str]) -> list[tuple[str, Leftover]]:
    return [
        (backend, leftover)
        for backend, answer in listed.items()
        if not isinstance(answer, str)
        for leftover in answer[1]
        if leftover.name and leftover.name not in names  # what carries no name is shared, and stays
    ]
