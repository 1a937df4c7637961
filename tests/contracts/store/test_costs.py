"""Costs on every database: sums by any grouping equal the ledger, by day in any time zone, and survive deletion."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Connection
from tests.contracts.store.downgrade import downgrade

from anygpu.events.costs import CostEntry, cost_entries
from anygpu.events.facts import Blame, Failure, Usage
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptReleased,
    Event,
    JobCompleted,
    JobEdited,
    JobFailed,
    OrphanEnded,
    RecoveryStarted,
    TrainingStarted,
)
from anygpu.store.calendar import DayRange, day_number
from anygpu.store.costs import Costs, CostSums
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.cost_rows import COLUMNS, from_row
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.schema import current_version, upgrade
from anygpu.store.sql.engine.statements import fetch_all
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.journal import append
from anygpu.testing.samples.jobs import LAB, LAB_OTHER_PROJECT, STRANGER, job_id, job_submitted

GROUPINGS = ("day", "person", "backend", "gpu")
HOUR_MS = 3_600_000
NOON_MS = int(datetime(2026, 11, 10, 12, tzinfo=UTC).timestamp() * 1000)
EVER = DayRange(date(2020, 1, 1), date(2029, 12, 31), UTC)
PREEMPTED = Failure(code="preempted", message="taken back", blame=Blame.PREEMPTION)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def costs(database: Database) -> Costs:
    return Costs(database)


@pytest.fixture
def journal(database: Database) -> SqlJournal:
    return SqlJournal(database)


def rented(backend: str = "cloud", *, price: int = 1_000_000, spot: bool = False, gpu: str = "A10G") -> Offer:
    return Offer(
        backend=backend,
        name="g5",
        gpu_kind=gpu,
        gpu_count=2,
        price_microusd_per_hour=price,
        interruptible=spot,
    )


def attempt_events(number: int, offer: Offer, *, on_demand: int | None = None) -> list[Event]:
    return [
        AttemptLaunching(
            attempt=number,
            name=f"a-{number}",
            offer=offer,
            ticket_sha256="",
            on_demand_microusd_per_hour=on_demand,
        ),
        AttemptLaunched(attempt=number, handle=Handle(name="m")),
        AttemptClaimed(attempt=number, claimant="c"),
        TrainingStarted(attempt=number),
    ]


def usage(start_ms: int, hours: float, cost: int) -> Usage:
    return Usage(started_at_ms=start_ms, ended_at_ms=start_ms + round(hours * HOUR_MS), cost_microusd=cost)


async def submit_job(journal: SqlJournal, number: int, **fields: object) -> str:
    person = str(fields.pop("person", "ada"))
    event = replace(job_submitted(**fields), person=person)
    await journal.submit(LAB, job_id(number), event, at_ms=NOON_MS)
    return job_id(number)


async def run_job(
    journal: SqlJournal, number: int, used: Usage | None, offer: Offer | None = None, **fields: object
) -> str:
    job = await submit_job(journal, number, **fields)
    begun = attempt_events(1, offer or rented())
    ended: list[Event] = [AttemptEnded(attempt=1, outcome="exited", exit_code=0)]
    await append(journal, job, *begun, *ended, at_ms=NOON_MS)
    await append(
        journal, job, AttemptReleased(attempt=1, usage=used), JobCompleted(), at_ms=NOON_MS + HOUR_MS
    )
    return job


async def test_the_cost_of_an_attempt_is_counted_when_it_is_released(
    journal: SqlJournal, costs: Costs
) -> None:
    job = await submit_job(journal, 1)
    await append(journal, job, *attempt_events(1, rented()), at_ms=NOON_MS)
    await append(journal, job, AttemptEnded(attempt=1, outcome="exited", exit_code=0))
    assert (await costs.total(LAB, EVER)).microusd == 0
    await append(journal, job, AttemptReleased(attempt=1, usage=usage(NOON_MS, 2, 2_000_001)))
    total = await costs.total(LAB, EVER)
    assert (total.microusd, total.machine_ms, total.gpu_ms, total.jobs) == (
        2_000_001,
        2 * HOUR_MS,
        4 * HOUR_MS,
        1,
    )
    assert (await costs.total(STRANGER, EVER)).jobs == 0
    assert (await costs.total(LAB_OTHER_PROJECT, EVER)).jobs == 0


async def test_an_own_machine_counts_its_time_and_no_cost(journal: SqlJournal, costs: Costs) -> None:
    await run_job(journal, 1, None, Offer(backend="lab", gpu_kind="RTX3090", gpu_count=1, own=True, free=1))
    (group,) = (await costs.report(LAB, EVER, "backend")).groups.items()
    assert (group[0], group[1].microusd, group[1].gpu_ms) == ("lab", 0, HOUR_MS)


async def test_an_attempt_that_never_had_a_machine_is_not_counted(journal: SqlJournal, costs: Costs) -> None:
    job = await submit_job(journal, 1)
    failure = Failure(code="no_capacity", message="none", blame=Blame.LAUNCH)
    refused = [
        AttemptLaunching(attempt=1, name="a", offer=rented(), ticket_sha256=""),
        AttemptLost(attempt=1, evidence="refused", failure=failure),
        AttemptReleased(attempt=1),
    ]
    await append(journal, job, *refused, JobFailed(failure=failure))
    assert (await costs.report(LAB, EVER, "backend")).groups == {}


async def test_savings_lost_work_and_interruptions_are_those_of_the_attempts(
    journal: SqlJournal, costs: Costs
) -> None:
    job = await submit_job(journal, 1, tags=["night"])
    await append(
        journal,
        job,
        *attempt_events(1, rented(price=400_000, spot=True), on_demand=1_000_000),
        AttemptLost(attempt=1, evidence="gone", failure=PREEMPTED),
        AttemptReleased(attempt=1, usage=usage(NOON_MS, 2, 800_000)),
    )
    lost = RecoveryStarted(
        attempt=1, failure=PREEMPTED, delay_s=0, work_lost_s=120.5, work_lost_microusd=13_000
    )
    await append(journal, job, lost)
    await append(journal, job, *attempt_events(2, rented("other")))
    await append(
        journal,
        job,
        AttemptEnded(attempt=2, outcome="exited", exit_code=0),
        AttemptReleased(attempt=2, usage=usage(NOON_MS + 3 * HOUR_MS, 1, 1_000_000)),
        JobCompleted(),
    )
    total = await costs.total(LAB, EVER)
    assert (total.microusd, total.spot_microusd, total.saved_microusd) == (1_800_000, 800_000, 1_200_000)
    assert (total.lost_s, total.lost_microusd, total.interruptions, total.jobs) == (120.5, 13_000, 1, 1)
    groups = (await costs.report(LAB, EVER, "backend")).groups
    assert {key: (sums.microusd, sums.jobs) for key, sums in groups.items()} == {
        "cloud": (800_000, 1),
        "other": (1_000_000, 1),
    }
    orphan = OrphanEnded(attempt=1, usage=usage(NOON_MS + 9 * HOUR_MS, 1, 77))
    await append(journal, job, orphan)
    total = await costs.total(LAB, EVER)
    assert (total.microusd, total.lost_s, total.interruptions) == (1_800_077, 120.5, 1)


async def test_a_job_that_runs_over_midnight_counts_on_both_days(journal: SqlJournal, costs: Costs) -> None:
    start_ms = int(datetime(2026, 11, 10, 22, tzinfo=UTC).timestamp() * 1000)
    await run_job(journal, 1, usage(start_ms, 3, 1_000_000))
    by_day = (await costs.report(LAB, EVER, "day")).groups
    tenth = day_number(date(2026, 11, 10))
    assert {int(day): (sums.microusd, sums.jobs) for day, sums in by_day.items()} == {
        tenth: (666_666, 1),
        tenth + 1: (333_334, 1),
    }
    one_day = DayRange(date(2026, 11, 11), date(2026, 11, 11), UTC)
    assert (await costs.total(LAB, one_day)).microusd == 333_334
    east = DayRange(date(2026, 11, 11), date(2026, 11, 11), timezone(timedelta(hours=2)))
    assert (await costs.total(LAB, east)).microusd == 1_000_000


async def test_days_follow_a_time_zone_with_summer_time(journal: SqlJournal, costs: Costs) -> None:
    # Clocks in Berlin go back at 01:00 UTC on 25 October 2026: that day has 25 hours.
    begin_ms = int(datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp() * 1000)
    await run_job(journal, 1, usage(begin_ms, 25, 25_000_000))
    await run_job(journal, 2, usage(begin_ms + 25 * HOUR_MS, 1, 9))
    range_ = DayRange(date(2026, 10, 20), date(2026, 10, 31), BERLIN)
    by_day = (await costs.report(LAB, range_, "day")).groups
    day = day_number(date(2026, 10, 25))
    assert {int(each): sums.microusd for each, sums in by_day.items()} == {day: 25_000_000, day + 1: 9}


async def test_a_job_with_several_tags_counts_for_each_of_them(journal: SqlJournal, costs: Costs) -> None:
    await run_job(journal, 1, usage(NOON_MS, 1, 5), tags=["a", "b"])
    await run_job(journal, 2, usage(NOON_MS, 1, 7), tags=["b"])
    await run_job(journal, 3, usage(NOON_MS, 1, 11))
    report = await costs.report(LAB, EVER, "tag", daily=True)
    assert {tag: (sums.microusd, sums.jobs) for tag, sums in report.groups.items()} == {
        "a": (5, 1),
        "b": (12, 2),
        "": (11, 1),
    }
    assert (report.total.microusd, report.total.jobs) == (23, 3)
    assert sum(report.daily.values()) == 28


async def test_the_cost_of_a_deleted_job_stays(journal: SqlJournal, costs: Costs) -> None:
    job = await run_job(journal, 1, usage(NOON_MS, 1, 123), person="eve")
    await journal.delete(LAB, job, at_ms=NOON_MS + 9 * HOUR_MS)
    assert {key: sums.microusd for key, sums in (await costs.report(LAB, EVER, "person")).groups.items()} == {
        "eve": 123
    }


async def test_edited_tags_are_those_of_the_recorded_costs_too(journal: SqlJournal, costs: Costs) -> None:
    job = await run_job(journal, 1, usage(NOON_MS, 1, 5), tags=["old"])
    await append(journal, job, JobEdited(tags=("new", "best")))
    groups = (await costs.report(LAB, EVER, "tag")).groups
    assert {tag: sums.microusd for tag, sums in groups.items()} == {"new": 5, "best": 5}


async def test_running_attempts_are_added_and_a_job_is_counted_once(
    journal: SqlJournal, costs: Costs
) -> None:
    job = await run_job(journal, 1, usage(NOON_MS, 1, 100))
    now = CostEntry(
        job_id=job,
        attempt=2,
        part=0,
        started_at_ms=NOON_MS + HOUR_MS,
        ended_at_ms=NOON_MS + 2 * HOUR_MS,
        cost_microusd=50,
        person="ada",
        backend="cloud",
        gpu_kind="A10G",
    )
    for by in GROUPINGS:
        (group,) = (await costs.report(LAB, EVER, by, [now])).groups.values()
        assert (group.microusd, group.jobs) == (150, 1)
    recorded = replace(now, attempt=1)  # released since the list of running attempts was read
    assert (await costs.total(LAB, EVER, [recorded])).microusd == 100
    later = replace(now, job_id="another")
    total = await costs.total(LAB, EVER, [later])
    assert (total.microusd, total.jobs) == (150, 2)


async def populate(journal: SqlJournal, chance: random.Random, count: int) -> int:
    """Run random jobs and delete some of them. Return the sum of their ledgers."""
    ledger = 0
    for number in range(1, count + 1):
        tags = chance.sample(["a", "b", "c", "=1+1"], chance.randrange(4))
        job = await submit_job(journal, number, person=chance.choice(["ada", "eve", ""]), tags=tags)
        attempts = chance.randrange(1, 4)
        for attempt in range(1, attempts + 1):
            offer = rented(
                chance.choice(["aws", "lambda", "lab"]),
                price=chance.choice([0, 350_000, 1_000_000]),
                spot=chance.random() < 0.5,
                gpu=chance.choice(["A10G", "H100", ""]),
            )
            begin_ms = NOON_MS + chance.randrange(-30 * 24 * HOUR_MS, 30 * 24 * HOUR_MS)
            used = usage(begin_ms, chance.choice([0, 0.4, 3, 30, 99]), chance.randrange(5_000_000))
            used_or_free = used if offer.price_microusd_per_hour else None
            od = chance.choice([None, 900_000])
            await append(journal, job, *attempt_events(attempt, offer, on_demand=od), at_ms=begin_ms)
            last = attempt == attempts
            end: Event = (
                AttemptEnded(attempt=attempt, outcome="exited", exit_code=0)
                if last
                else AttemptLost(attempt=attempt, evidence="gone", failure=PREEMPTED)
            )
            after: Event = (
                JobCompleted()
                if last
                else RecoveryStarted(attempt=attempt, failure=PREEMPTED, delay_s=0, work_lost_s=1.5)
            )
            released = AttemptReleased(attempt=attempt, usage=used_or_free)
            await append(journal, job, end, released, after, at_ms=begin_ms + 100 * HOUR_MS)
        if chance.random() < 0.3:
            orphan = OrphanEnded(attempt=1, usage=usage(NOON_MS, 1, chance.randrange(1000)))
            await append(journal, job, orphan)
        view = await journal.view(SYSTEM, job)
        assert sum(entry.cost_microusd for entry in cost_entries(view)) == view.cost_microusd
        ledger += view.cost_microusd
        if chance.random() < 0.2:
            await journal.delete(LAB, job, at_ms=NOON_MS)
    return ledger


ZONES: Sequence[tzinfo] = (
    UTC,
    timezone(timedelta(hours=-9, minutes=-30)),
    BERLIN,
    ZoneInfo("America/New_York"),
)


@pytest.mark.parametrize("seed", range(3))
async def test_the_sum_of_any_grouping_is_the_ledger(journal: SqlJournal, costs: Costs, seed: int) -> None:
    chance = random.Random(seed)
    ledger = await populate(journal, chance, 30)
    zone = ZONES[seed % len(ZONES)]
    whole = DayRange(date(2026, 1, 1), date(2027, 12, 31), zone)
    middle = date(2026, 11, 1) + timedelta(days=chance.randrange(20))
    halves = (replace(whole, last=middle), replace(whole, first=middle + timedelta(days=1)))
    for by in GROUPINGS:
        report = await costs.report(LAB, whole, by, daily=by != "day")
        assert sum(sums.microusd for sums in report.groups.values()) == report.total.microusd == ledger
        parts = [await costs.report(LAB, half, by) for half in halves]
        assert sum(sums.microusd for part in parts for sums in part.groups.values()) == ledger
        assert sum(part.total.machine_ms for part in parts) == report.total.machine_ms
        assert sum(part.total.interruptions for part in parts) == report.total.interruptions
        if by != "day":
            assert sum(report.daily.values()) == ledger
    tags = await costs.report(LAB, whole, "tag")
    assert tags.total.microusd == ledger


async def test_every_sum_is_that_of_the_entries_added_one_by_one(
    database: Database, journal: SqlJournal, costs: Costs
) -> None:
    await populate(journal, random.Random(7), 40)
    entries = await stored_entries(database)
    running = [replace(entry, job_id=f"new-{n}", attempt=9) for n, entry in enumerate(entries[:5])]
    running += [replace(entries[5], attempt=9)]  # another attempt of a job that has entries
    days = DayRange(date(2026, 10, 20), date(2026, 11, 12), BERLIN)
    found = (await costs.report(LAB, days, "day", running)).groups
    for number, day in enumerate(days.days, start=day_number(days.first)):
        one = DayRange(day, day, BERLIN)
        assert found.get(str(number), CostSums()) == brute_force([*entries, *running], one)
    groups = (await costs.report(LAB, days, "backend", running)).groups
    for backend in {entry.backend for entry in entries}:
        chosen = [entry for entry in [*entries, *running] if entry.backend == backend]
        assert groups.get(backend, CostSums()) == brute_force(chosen, days)


def brute_force(entries: Sequence[CostEntry], days: DayRange) -> CostSums:
    """Add up entries in a range of days, one by one."""
    sums, jobs = CostSums(), set()
    for entry in entries:
        begin, end = max(entry.started_at_ms, days.from_ms), min(entry.ended_at_ms, days.to_ms)
        if begin >= end:
            continue
        cost = share(entry, entry.cost_microusd, begin, end)
        ends_here = entry.ended_at_ms == end
        jobs.add(entry.job_id)
        sums.microusd += cost
        sums.machine_ms += end - begin
        sums.gpu_ms += (end - begin) * entry.gpu_count
        sums.spot_microusd += cost if entry.interruptible else 0
        sums.saved_microusd += share(entry, entry.saved_microusd, begin, end)
        sums.lost_s += entry.lost_s if ends_here else 0.0
        sums.lost_microusd += entry.lost_microusd if ends_here else 0
        sums.interruptions += int(entry.interrupted and ends_here)
    sums.jobs = len(jobs)
    return sums


def share(entry: CostEntry, amount: int, from_ms: int, to_ms: int) -> int:
    whole_ms = entry.ended_at_ms - entry.started_at_ms
    before, after = from_ms - entry.started_at_ms, to_ms - entry.started_at_ms
    return amount * after // whole_ms - amount * before // whole_ms


async def stored_entries(database: Database) -> list[CostEntry]:
    sql = f"SELECT {', '.join(COLUMNS)} FROM costs ORDER BY job_id, attempt, part"
    return [from_row(row) for row in await database.read(lambda connection: fetch_all(connection, sql))]


async def test_a_migration_computes_the_costs_of_older_journals(
    database: Database, journal: SqlJournal, costs: Costs
) -> None:
    ledger = await populate(journal, random.Random(4), 25)
    before = {entry_key(entry): entry for entry in await stored_entries(database)}

    def migrate(connection: Connection) -> None:
        downgrade(connection, "0008")
        assert current_version(connection) == "0008"
        upgrade(connection)

    await database.write(migrate)
    after = {entry_key(entry): entry for entry in await stored_entries(database)}
    assert (await costs.total(LAB, EVER)).microusd == ledger
    kept = {key: entry for key, entry in after.items() if key[1]}
    assert kept == {key: replace(before[key], saved_microusd=0) for key in kept}
    deleted = [entry for entry in after.values() if not entry.attempt]
    assert deleted  # of jobs that were deleted before, only the cost is known
    assert {entry.backend for entry in deleted} == {""}
    gone = [entry for key, entry in before.items() if key not in kept]
    assert sum(entry.cost_microusd for entry in gone) == sum(entry.cost_microusd for entry in deleted)


def entry_key(entry: CostEntry) -> tuple[str, int, int]:
    return entry.job_id, entry.attempt, entry.part
