"""SQLite in a file, under the accidents files have: killed processes, full disks, locks held by others."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from anygpu.errors import AnygpuError, Internal, StorageFull, StoreBusy
from anygpu.events.fold import Recorded, fold
from anygpu.store.reports import ReportBatch
from anygpu.store.sql.engine import schema
from anygpu.store.sql.engine.database import Work, open_database
from anygpu.store.sql.engine.schema import SCHEMA_VERSION, OldServersRun
from anygpu.store.sql.engine.sqlite import SqliteDatabase
from anygpu.store.sql.engine.statements import execute as run
from anygpu.store.sql.engine.statements import execute_many, fetch_all, fetch_one
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.journal import submit
from anygpu.testing.samples.jobs import LAB, START_MS, job_id, job_submitted

WRITER = """
import asyncio, sys
from pathlib import Path
from anygpu.events.types import JobWaited
from anygpu.store.reports import MetricPoint, ReportBatch
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.engine.sqlite import SqliteDatabase
from anygpu.testing.samples.jobs import LAB, job_id, job_submitted

async def report(reports, number):
    for seq in range(1, 1_000_000):
        points = [(seq, [MetricPoint("loss", seq, 0.0, 1.0)])]
        batch = ReportBatch(first=seq, last=seq, logs=[(seq, b"%06d\\n" % seq)], points=points)
        await reports.ingest(job_id(number), 1, batch, at_ms=0)
        print("seq", number, seq, flush=True)

async def journal(writer, number):
    await writer.submit(LAB, job_id(number), job_submitted(), at_ms=number)
    for turn in range(1, 1_000_000):
        written = await writer.transact(SYSTEM, job_id(number), lambda v: [JobWaited(reason=str(turn))], at_ms=turn)
        print("position", number, written.view.position, flush=True)

async def main():
    database = await SqliteDatabase.open(Path(sys.argv[1]))
    reports, writer = SqlReports(database), SqlJournal(database)
    await asyncio.gather(*(report(reports, n) for n in range(4)), *(journal(writer, n) for n in range(4)))

asyncio.run(main())
"""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    opened = await SqliteDatabase.open(tmp_path / "anygpu.db", busy_timeout_s=0.05)
    yield opened
    await opened.close()


def limit_pages(connection: Connection, extra: int) -> int:
    found = fetch_one(connection, "PRAGMA page_count")
    assert found is not None
    limited = fetch_one(connection, f"PRAGMA max_page_count = {found[0] + extra}")
    assert limited is not None
    return int(limited[0])


@pytest.mark.parametrize("lines", [40, 400])
async def test_everything_acknowledged_survives_a_killed_process(tmp_path: Path, lines: int) -> None:
    acked, position = kill_after(tmp_path / "anygpu.db", lines)
    database = await SqliteDatabase.open(tmp_path / "anygpu.db")
    reports, journal = SqlReports(database), SqlJournal(database)
    for number, seq in acked.items():
        found = await reports.state(job_id(number), 1)
        assert found.acked >= seq
        log = await reports.log(job_id(number), 1, offset=0, limit=10_000_000)
        assert log.data == b"".join(b"%06d\n" % n for n in range(1, found.acked + 1))
        points, _ = await reports.points(job_id(number), 1, after=0, limit=10_000_000)
        assert [point.step for point in points] == list(range(1, found.acked + 1))
    events = await journal.events(LAB, after=0, limit=10_000_000)
    assert [one.position for one in events] == list(range(1, len(events) + 1))
    assert len(events) >= max(position.values())
    for number in position:
        assert fold(one for one in events if one.job_id == job_id(number)) == await journal.view(
            LAB, job_id(number)
        )
    await database.close()


def kill_after(path: Path, lines: int) -> tuple[dict[int, int], dict[int, int]]:
    """What a writer had been told was durable when it was killed: sequence numbers and positions, by job."""
    told: dict[str, dict[int, int]] = {"seq": {}, "position": {}}
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for count, line in enumerate(process.stdout):
            if count == lines:
                process.send_signal(signal.SIGKILL)
            if line.endswith("\n") and len(words := line.split()) == 3:
                told[words[0]][int(words[1])] = int(words[2])
    assert process.returncode == -signal.SIGKILL
    return told["seq"], told["position"]


async def test_a_full_disk_refuses_and_afterwards_all_is_well(database: SqliteDatabase) -> None:
    reports = SqlReports(database)
    await reports.ingest(job_id(1), 1, ReportBatch(first=1, last=1, logs=[(1, b"before")]), at_ms=START_MS)
    await database.write(lambda connection: limit_pages(connection, 2))
    big = ReportBatch(first=2, last=2, logs=[(2, random.Random(1).randbytes(200_000))])
    for _ in range(2):
        with pytest.raises(StorageFull):
            await reports.ingest(job_id(1), 1, big, at_ms=START_MS)
    assert (await reports.state(job_id(1), 1)).acked == 1
    await database.write(lambda connection: limit_pages(connection, 100_000))
    assert (await reports.ingest(job_id(1), 1, big, at_ms=START_MS)).acked == 2
    assert (await reports.log(job_id(1), 1, offset=0, limit=6)).data == b"before"


async def test_on_a_full_disk_small_writes_beside_a_large_one_still_fit(database: SqliteDatabase) -> None:
    reports = SqlReports(database)
    await reports.record_heartbeat(job_id(1), 1, at_ms=START_MS)
    await database.write(lambda connection: limit_pages(connection, 4))
    big = ReportBatch(first=1, last=1, logs=[(1, random.Random(1).randbytes(400_000))])
    results = await asyncio.gather(
        *(reports.record_heartbeat(job_id(1), 1, at_ms=START_MS + n) for n in range(5)),
        reports.ingest(job_id(2), 1, big, at_ms=START_MS),
        *(reports.record_heartbeat(job_id(1), 1, at_ms=START_MS + n) for n in range(5)),
        return_exceptions=True,
    )
    failed = [result for result in results if isinstance(result, BaseException)]
    assert [type(error) for error in failed] == [StorageFull]
    assert (await reports.state(job_id(1), 1)).beats == 11


async def test_a_database_locked_by_another_is_busy_and_then_works(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    journal = SqlJournal(database)
    await submit(journal, 1)
    other = sqlite3.connect(tmp_path / "anygpu.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    results = await asyncio.gather(*(submit(journal, n) for n in range(2, 8)), return_exceptions=True)
    assert {type(result) for result in results} == {StoreBusy}
    assert await journal.head(LAB) == 1
    other.execute("ROLLBACK")
    other.close()
    await submit(journal, 2)
    assert await journal.head(LAB) == 2


async def test_a_cancelled_write_is_committed_and_its_listener_called(database: SqliteDatabase) -> None:
    told: list[Recorded] = []
    journal = SqlJournal(database, on_commit=told.extend)
    tasks = [asyncio.create_task(submit(journal, number)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await submit(journal, 99)
    assert [one.position for one in told] == list(range(1, 22))
    assert await journal.head(LAB) == 21


async def test_a_failing_listener_does_not_affect_other_writes(database: SqliteDatabase) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: reported.append(context["exception"])
    )

    def fail(recorded: object) -> None:
        raise ZeroDivisionError

    journal = SqlJournal(database, on_commit=fail)
    views = await asyncio.gather(*(submit(journal, number) for number in range(5)))
    assert len(views) == 5
    assert [type(error) for error in reported] == [ZeroDivisionError] * 5


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    database = await SqliteDatabase.open(tmp_path / "anygpu.db")
    journal = SqlJournal(database)
    writing = [asyncio.create_task(submit(journal, number)) for number in range(50)]
    await asyncio.sleep(0)
    await database.close()
    await database.close()
    assert len(await asyncio.gather(*writing)) == 50
    with pytest.raises(Internal):
        await journal.head(LAB)
    again = await SqliteDatabase.open(tmp_path / "anygpu.db")
    assert await SqlJournal(again).head(LAB) == 50
    await again.close()


async def test_two_event_loops_can_share_it(database: SqliteDatabase) -> None:
    journal = SqlJournal(database)

    def elsewhere() -> None:
        asyncio.run(submit(journal, 1))

    await asyncio.gather(asyncio.to_thread(elsewhere), submit(journal, 2))
    assert await journal.head(LAB) == 2


LEASE = "INSERT INTO leases (name, holder, epoch, expires_ms) VALUES (?, 'y', 1, 1)"


def after_a_row(connection: Connection) -> None:
    run(connection, LEASE, ("mistaken",))
    raise ZeroDivisionError


def after_a_row_it_read_back(connection: Connection) -> None:
    assert fetch_one(connection, LEASE + " RETURNING epoch", ("mistaken",)) == (1,)
    raise ZeroDivisionError


def among_many_rows(connection: Connection) -> None:
    execute_many(connection, LEASE, [("mistaken",), ("another",), ("mistaken",)])


def before_anything(connection: Connection) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("mistaken", "raised"),
    [
        (after_a_row, ZeroDivisionError),
        (after_a_row_it_read_back, ZeroDivisionError),
        (among_many_rows, sqlite3.IntegrityError),
        (before_anything, ZeroDivisionError),
    ],
)
async def test_a_mistake_in_the_work_reaches_its_caller_alone(
    database: SqliteDatabase, mistaken: Work[None], raised: type[Exception]
) -> None:
    """In one commit with others, whose work stays."""
    ready = threading.Event()
    works: list[Work[object]] = [lambda _: ready.wait(10)]  # what comes meanwhile is committed together
    works += [lambda c: run(c, LEASE, ("first",)), mistaken, lambda c: run(c, LEASE, ("last",))]
    writes = [asyncio.create_task(database.write(work)) for work in works]
    await asyncio.sleep(0)
    ready.set()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [bool, int, raised, int]
    names = await database.read(
        lambda connection: fetch_all(connection, "SELECT name FROM leases ORDER BY name")
    )
    assert names == [("first",), ("last",)]


async def test_reading_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await database.read(lambda connection: run(connection, "DELETE FROM jobs"))


def change(path: Path, *statements: str) -> None:
    raw = sqlite3.connect(path)
    with raw:
        for each in statements:
            raw.execute(each)
    raw.close()


NEWER = "UPDATE alembic_version SET version_num = '9999'"
OLDEST = "UPDATE properties SET value = '{}' WHERE name = 'schema_oldest_server'"


@pytest.mark.parametrize("oldest", [OLDEST.format("9999"), "DELETE FROM properties"])
async def test_a_database_of_a_newer_version_is_refused_with_advice(tmp_path: Path, oldest: str) -> None:
    path = tmp_path / "anygpu.db"
    await (await SqliteDatabase.open(path)).close()
    change(path, NEWER, oldest)
    with pytest.raises(AnygpuError, match="newer version of anygpu"):
        await SqliteDatabase.open(path)


async def test_a_newer_database_that_allows_this_version_is_used(tmp_path: Path) -> None:
    path = tmp_path / "anygpu.db"
    await (await SqliteDatabase.open(path)).close()
    change(path, NEWER, OLDEST.format(SCHEMA_VERSION), "ALTER TABLE jobs ADD COLUMN added_later TEXT")
    database = await SqliteDatabase.open(path)
    journal = SqlJournal(database)
    await journal.submit(LAB, job_id(1), job_submitted(), at_ms=START_MS)
    assert (await journal.view(LAB, job_id(1))).id == job_id(1)
    await database.close()


async def test_a_migration_waits_until_servers_that_are_too_old_have_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "anygpu.db"
    await (await SqliteDatabase.open(path)).close()
    row = f"('a', 'host', 'http://old:1', '', '0.1.0', '{SCHEMA_VERSION}', 0, {{}})"
    change(path, f"INSERT INTO servers VALUES {row.format(2**53)}")
    monkeypatch.setattr(schema, "SCHEMA_VERSION", "9999")
    monkeypatch.setattr(schema, "OLDEST_SERVER", "9999")
    with pytest.raises(OldServersRun, match=r"http://old:1 \(version 0\.1\.0\)"):
        await SqliteDatabase.open(path)


async def test_an_address_of_no_known_kind_is_refused() -> None:
    with pytest.raises(AnygpuError, match="mysql"):
        await open_database("mysql://localhost/x")


async def test_an_address_opens_a_file(tmp_path: Path) -> None:
    database = await open_database(f"sqlite:///{tmp_path / 'a.db'}")
    await SqlJournal(database).submit(LAB, job_id(1), job_submitted(), at_ms=START_MS)
    await database.close()
    assert (tmp_path / "a.db").exists()


async def test_opening_a_current_database_does_not_import_alembic(tmp_path: Path) -> None:
    await (await SqliteDatabase.open(tmp_path / "anygpu.db")).close()
    program = (
        "import sys; from pathlib import Path; from anygpu.store.sql.engine.sqlite import SqliteDatabase;"
        " SqliteDatabase(Path(sys.argv[1])); sys.exit('alembic' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program, str(tmp_path / "anygpu.db")], check=False).returncode
        == 0
    )
