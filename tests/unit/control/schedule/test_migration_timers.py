"""When a running job is compared with other places, and what a pass writes."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.unit.control.running import DEAR, Timed, asked, job, moved, predicted, saved, settled_in, started
from tests.unit.control.shelf import Shelf

from anygpu.control.jobs import require_migratable
from anygpu.control.policy import ControlPolicy
from anygpu.control.reconcile.liveness import must_migrate
from anygpu.control.reconcile.verdict import Retry, verdict
from anygpu.control.schedule.candidates import CandidateSource
from anygpu.control.schedule.compare import OfferComparer, no_analysis
from anygpu.control.schedule.migration import (
    MIGRATION_BATCH,
    PASS_INTERVAL_S,
    MigrationChecker,
    MigrationTimers,
)
from anygpu.events.offers import Offer
from anygpu.events.types import BetterPlaceFound, CancelRequested, Event, MigrateRequested, StopRequested
from anygpu.events.view import JobView
from anygpu.plan.offers.candidates import BackendTerms
from anygpu.plan.offers.migration import MigrationPolicy
from anygpu.store.blobs.uploads import Plans
from anygpu.store.scope import SYSTEM, Scope
from anygpu.testing.memory.blobs import MemoryBlobs
from anygpu.testing.memory.journal import MemoryJournal
from anygpu.testing.simulation.virtual_time import VirtualClock, VirtualLoop, run

RULES = MigrationPolicy(mode="act")
CHEAP = replace(DEAR, backend="cheap", price_microusd_per_hour=600_000)
NEVER = float("inf")
AFTER_A_MOVE: list[Timed] = [
    *started(0),
    *moved(300, 1),
    *started(300, CHEAP, 2),
    (500, predicted()),
    saved(1000, 2),
]


def watched(
    *views: JobView, rules: MigrationPolicy = RULES, wall_ms: int = 0
) -> tuple[MigrationTimers, VirtualClock, VirtualLoop]:
    loop = VirtualLoop()
    clock = VirtualClock(loop, start_ms=wall_ms)
    moves = MigrationTimers(clock, rules)
    for view in views:
        moves.update(view)
    return moves, clock, loop


def test_a_job_is_due_as_soon_as_its_own_steps_have_told_its_pace() -> None:
    moves, clock, _ = watched(job(*started(0), saved(100)))
    assert moves.next_at() == NEVER
    moves.update(settled_in())
    assert moves.next_at() <= clock.monotonic()
    assert moves.due() == ["job"]


def test_after_a_look_it_is_due_again_much_later_whatever_is_heard_of_it() -> None:
    moves, clock, _ = watched(settled_in())
    moves.record_check(settled_in(), found=False)
    for _ in range(100):
        moves.update(settled_in())
    assert moves.next_at() == clock.monotonic() + RULES.check_every_s


def test_one_that_wants_to_go_is_due_when_it_has_just_saved() -> None:
    moves, clock, _ = watched(settled_in(), wall_ms=1_030_000)
    moves.record_check(settled_in(), found=True)
    moves.update(settled_in())
    assert moves.next_at() == clock.monotonic()
    stale, clock, _ = watched(settled_in(), wall_ms=2_000_000)
    stale.record_check(settled_in(), found=True)
    stale.update(settled_in())
    assert stale.next_at() == clock.monotonic() + RULES.check_every_s


def test_one_that_is_only_told_does_not_wait_for_a_checkpoint() -> None:
    moves, clock, _ = watched(settled_in(), rules=MigrationPolicy(), wall_ms=1_030_000)
    moves.record_check(settled_in(), found=True)
    moves.update(settled_in())
    assert moves.next_at() == clock.monotonic() + RULES.check_every_s


def test_one_that_came_by_a_move_stays_for_an_hour() -> None:
    moves, clock, _ = watched(job(*AFTER_A_MOVE))
    assert moves.next_at() == clock.monotonic() + RULES.min_interval_s
    assert moves.due() == []


def test_jobs_that_have_told_their_pace_one_after_the_other_are_looked_at_together() -> None:
    moves, clock, _ = watched(settled_in())
    assert moves.due() == ["job"]
    moves.record_check(settled_in(), found=False)
    moves.update(replace(settled_in(), id="next"))
    assert moves.next_at() == clock.monotonic() + PASS_INTERVAL_S


def test_a_pass_is_bounded_and_nobody_is_left_out() -> None:
    views = {f"{n:03d}": replace(settled_in(), id=f"{n:03d}") for n in range(MIGRATION_BATCH + 7)}
    moves, _, _ = watched(*views.values())
    first = moves.due()
    for job_id in first:
        moves.record_check(views[job_id], found=False)
    second = moves.due()
    assert len(first) == MIGRATION_BATCH
    assert sorted([*first, *second]) == sorted(views)


def test_what_stops_ends_or_never_settles_is_not_kept_in_mind() -> None:
    moves, _, _ = watched(settled_in())
    moves.update(job(*started(0), (400, predicted()), saved(1000), (1010, CancelRequested())))
    assert moves.next_at() == NEVER
    assert watched(settled_in(), rules=MigrationPolicy(mode="never"))[0].next_at() == NEVER
    gone, _, _ = watched(settled_in())
    gone.forget("job")
    assert gone.next_at() == NEVER


# -- a pass -------------------------------------------------------------------------------------------------------


def _just(event: Event, view: JobView) -> list[Event]:
    return [event]


def passed(
    *offers: Offer, mode: Any = "act", jobs: int = 1, passes: int = 1, **spec: Any
) -> tuple[JobView, list[Event]]:
    """Settled jobs after a pass: how the first one is, and what was written of them."""

    async def story(loop: VirtualLoop) -> tuple[JobView, list[Event]]:
        clock, journal = VirtualClock(loop, start_ms=0), MemoryJournal(now_s=loop.time)
        for job_id in ["job", *(f"job{n}" for n in range(1, jobs))]:
            await journal.submit(Scope(organisation="lab", project="p"), job_id, asked(**spec), at_ms=0)
            for at, event in [*started(0), (400, predicted()), saved(1000)]:
                await journal.transact(SYSTEM, job_id, partial(_just, event), at_ms=round(at * 1000))
        await asyncio.sleep(1030)
        policy = ControlPolicy(paid_timeout_s=200_000, migration=MigrationPolicy(mode=mode))
        blobs = MemoryBlobs(clock.wall_ms)
        backends = {offer.backend: Shelf(offer.backend, offer) for offer in offers}
        comparer = OfferComparer(no_analysis, Plans(blobs), clock)
        source, timers = (
            CandidateSource(backends, comparer, clock, policy),
            MigrationTimers(clock, policy.migration),
        )
        checker = MigrationChecker(journal, source, timers, comparer, clock, policy)
        guard = await journal.acquire("control", "me", ttl_s=10**9)
        assert guard is not None
        before = max(view.position for view in await journal.live())
        for _ in range(passes):
            views = await journal.live()
            await checker.run(views, views, guard)
        events = await journal.events(Scope(organisation="lab", project="p"), after=before, limit=99)
        return await journal.view(SYSTEM, "job"), [recorded.event for recorded in events]

    return run(story)


def test_a_job_that_may_is_stopped_for_a_better_place_and_that_is_no_retry() -> None:
    view, (told, stop) = passed(DEAR, CHEAP)
    assert isinstance(told, BetterPlaceFound)
    assert isinstance(stop, StopRequested)
    assert told.better is not None
    assert told.better.offer.backend == "cheap"
    assert stop.reason == "cheaper"
    live = view.live_attempt
    assert live is not None
    ended = replace(live, ended_at_ms=1, outcome="stopped")
    after = verdict(view, ended)
    assert isinstance(after, Retry)
    assert not after.counts


@pytest.mark.parametrize("passes", [1, 2])
def test_one_free_machine_is_left_for_by_one_job_only(passes: int) -> None:
    box = replace(DEAR, backend="box", price_microusd_per_hour=0, free=1)
    _, written = passed(DEAR, box, jobs=3, passes=passes)
    assert [type(event) for event in written] == [BetterPlaceFound, StopRequested]


def test_by_default_a_job_is_only_told() -> None:
    view, (told,) = passed(DEAR, CHEAP, mode="advise")
    assert isinstance(told, BetterPlaceFound)
    assert view.better == told.better


def test_where_nothing_is_better_nothing_is_written() -> None:
    assert passed(DEAR)[1] == []
    assert passed(DEAR, replace(CHEAP, price_microusd_per_hour=1_900_000))[1] == []


def test_one_that_cannot_be_weighed_is_tried_again_much_later_and_the_others_before_it() -> None:
    def unknown(backend: str) -> BackendTerms:
        raise LookupError(backend)

    async def story(loop: VirtualLoop) -> float:
        clock, journal = VirtualClock(loop, start_ms=0), MemoryJournal(now_s=loop.time)
        await asyncio.sleep(1030)
        blobs, backends = MemoryBlobs(clock.wall_ms), {"cheap": Shelf("cheap", CHEAP)}
        comparing = OfferComparer(no_analysis, Plans(blobs), clock, terms_of=unknown)
        policy = ControlPolicy(paid_timeout_s=200_000, migration=RULES)
        source, timers = CandidateSource(backends, comparing, clock, policy), MigrationTimers(clock, RULES)
        checker = MigrationChecker(journal, source, timers, comparing, clock, policy)
        guard = await journal.acquire("control", "me", ttl_s=10**9)
        assert guard is not None
        timers.update(settled_in())
        with pytest.raises(LookupError):
            await checker.run([settled_in()], [settled_in()], guard)
        return timers.next_at() - clock.monotonic()

    assert run(story) == RULES.check_every_s


# -- by hand ------------------------------------------------------------------------------------------------------


def test_a_better_machine_at_the_same_backend_can_be_asked_for() -> None:
    better = passed(DEAR, CHEAP, mode="advise")[0].better
    assert better is not None
    at_home = replace(better, offer=replace(CHEAP, backend="dear", name="g6"))
    told = (1010.0, BetterPlaceFound(attempt=1, better=at_home))
    view = job(*started(0), (400, predicted()), saved(1000), told)
    require_migratable(view, "dear")
    live = view.live_attempt
    assert live is not None
    assert must_migrate(replace(view, migrate_to="dear"), live)
    assert not must_migrate(replace(view, migrate_to="dear", better=None), live)
    assert not must_migrate(view, live)


def test_a_wish_to_move_ends_the_looking() -> None:
    moves, _, _ = watched(settled_in())
    moves.update(job(*started(0), (400, predicted()), saved(1000), (1010, MigrateRequested(to="cheap"))))
    assert moves.next_at() == NEVER
