"""Events get consecutive positions in their project, and a damaged row is read as a damaged event."""

from sqlalchemy import Connection

from anygpu.events.types import CancelRequested, DamagedEvent, StartRequested
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.engine.statements import execute, fetch_one
from anygpu.store.sql.event_rows import insert_events, read_events
from anygpu.testing.samples.jobs import START_MS, job_id, job_submitted

JOB = job_id(1)
ALL = "e.project_id = ?"


def insert_project(connection: Connection) -> int:
    execute(connection, "INSERT INTO projects (organisation, project, head) VALUES ('lab', 'vision', 0)")
    row = fetch_one(connection, "SELECT id FROM projects")
    assert row is not None
    return int(row[0])


def insert(connection: Connection, project: int) -> None:
    for events in ([job_submitted()], [StartRequested(), CancelRequested()]):
        insert_events(connection, project, "lab", "vision", JOB, events, START_MS)


async def test_positions_have_no_gaps_and_events_are_read_in_order() -> None:
    database = InlineDatabase()

    def work(connection: Connection) -> None:
        project = insert_project(connection)
        insert(connection, project)
        events = read_events(connection, ALL, (project,), limit=-1)
        assert [each.position for each in events] == [1, 2, 3]
        assert [type(each.event).__name__ for each in events] == [
            "JobSubmitted",
            "StartRequested",
            "CancelRequested",
        ]
        assert {(each.organisation, each.project, each.job_id, each.at_ms) for each in events} == {
            ("lab", "vision", JOB, START_MS)
        }
        newest = read_events(connection, ALL, (project,), limit=2, newest_first=True)
        assert [each.position for each in newest] == [3, 2]

    await database.write(work)
    await database.close()


async def test_an_event_that_cannot_be_read_is_returned_as_damaged() -> None:
    database = InlineDatabase()

    def work(connection: Connection) -> None:
        project = insert_project(connection)
        insert(connection, project)
        execute(connection, "UPDATE events SET data = '{' WHERE position = 1")
        execute(connection, "UPDATE events SET at_ms = -5 WHERE position = 2")
        execute(connection, "UPDATE events SET kind = 'Unheard' WHERE position = 3")
        events = read_events(connection, ALL, (project,), limit=-1)
        damaged = [each.event for each in events if isinstance(each.event, DamagedEvent)]
        assert [each.kind for each in damaged] == ["JobSubmitted", "StartRequested", "Unheard"]
        assert "time -5 is not valid" in damaged[1].reason
        assert events[1].at_ms == 0

    await database.write(work)
    await database.close()
