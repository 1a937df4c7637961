"""Machines that providers list, compared with the attempts in the journal."""

from dataclasses import replace
from typing import Any

from anygpu.backends.contract import Leftover
from anygpu.control.ids import attempt_name
from anygpu.events.offers import Handle
from anygpu.events.types import AttemptLaunching, Event
from anygpu.events.view import JobView
from anygpu.server.jobs.machines import OrphanMachine, load_inventory, visible_machines, with_origins
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.samples import jobs
from anygpu.testing.samples.jobs import LAB, STRANGER


class Provider:
    """A backend that lists machines and leftover resources, or fails."""

    def __init__(self, *names: str, leftovers: tuple[Leftover, ...] = (), error: str = "") -> None:
        self._names, self._leftovers, self._error = names, leftovers, error

    async def inventory(self) -> list[Handle]:
        if self._error:
            raise RuntimeError(self._error)
        return [Handle(name=name) for name in self._names]

    async def leftovers(self) -> tuple[Leftover, ...]:
        return self._leftovers

    async def remove(self, leftover: Leftover) -> None:
        raise NotImplementedError


async def journal_with_a_running_attempt() -> tuple[MemoryJournal, JobView]:
    journal = MemoryJournal()
    job_id = jobs.job_id(1)
    await journal.submit(LAB, job_id, jobs.job_submitted(), at_ms=jobs.START_MS)
    first = next(event for event in jobs.interrupted_job() if isinstance(event, AttemptLaunching))
    launching = replace(first, name=attempt_name(job_id, 1), offer=replace(first.offer, backend="cloud"))

    def decide(_: JobView) -> list[Event]:
        return [launching]

    return journal, (await journal.transact(LAB, job_id, decide, at_ms=jobs.START_MS)).view


async def test_a_listed_machine_without_an_attempt_is_an_orphan() -> None:
    journal, view = await journal_with_a_running_attempt()
    attempt = view.attempts[-1]
    backends: Any = {attempt.offer.backend: Provider(attempt.name, "anygpu-other-1")}
    inventory = await load_inventory(backends, journal)
    assert [(each.attempt.name, each.listed) for each in inventory.owned] == [(attempt.name, True)]
    assert [each.handle.name for each in inventory.orphans] == ["anygpu-other-1"]


async def test_an_orphan_has_the_offer_of_the_attempt_that_it_was_rented_for() -> None:
    journal, view = await journal_with_a_running_attempt()
    name = view.attempts[-1].name
    backends: Any = {"cloud": Provider(f"{name[:-1]}7", "anygpu-other-1"), "elsewhere": Provider(name)}
    inventory = await load_inventory(backends, journal)
    strangers = await with_origins(journal, inventory.orphans)
    assert [each.origin for each in strangers] == [None, None, None]
    (orphan,) = await with_origins(journal, [OrphanMachine(backend="cloud", handle=Handle(name=name))])
    assert orphan.origin == view.attempts[-1]


async def test_resources_of_a_live_attempt_and_shared_ones_are_not_leftovers() -> None:
    journal, view = await journal_with_a_running_attempt()
    attempt = view.attempts[-1]
    names = (attempt.name, "", "anygpu-ended-1")
    leftovers = tuple(Leftover(kind="disk", id=f"disk-{name}", name=name) for name in names)
    backends: Any = {attempt.offer.backend: Provider(leftovers=leftovers)}
    inventory = await load_inventory(backends, journal)
    assert [leftover.name for _, leftover in inventory.leftovers] == ["anygpu-ended-1"]
    assert [each.listed for each in inventory.owned] == [False]


async def test_a_failing_backend_is_named_and_the_others_are_listed() -> None:
    backends: Any = {"broken": Provider(error="no answer"), "good": Provider("anygpu-other-1")}
    inventory = await load_inventory(backends, MemoryJournal())
    assert inventory.unreachable == {"broken": "no answer"}
    assert [each.backend for each in inventory.orphans] == ["good"]


async def test_machines_of_another_project_are_not_visible() -> None:
    journal, view = await journal_with_a_running_attempt()
    backends: Any = {view.attempts[-1].offer.backend: Provider()}
    inventory = await load_inventory(backends, journal)
    assert len(visible_machines(inventory, LAB)) == 1
    assert visible_machines(inventory, STRANGER) == ()
