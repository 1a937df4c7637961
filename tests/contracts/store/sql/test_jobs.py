"""Views of jobs, and the events they are folded from."""

from anygpu.events.fold import fold
from anygpu.events.view import FOLD_VERSION
from anygpu.store.journal import JobQuery
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import execute
from anygpu.store.sql.journal import SqlJournal
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.samples.jobs import LAB, attempt_training, interrupted_job, job_id


async def test_a_view_of_another_fold_version_is_folded_again(database: Database) -> None:
    await submit(SqlJournal(database), 1)
    expected = await append(SqlJournal(database), job_id(1), *attempt_training())
    spoil = (
        f"UPDATE jobs SET fold_version = {FOLD_VERSION - 1}, view = '{{}}', status = 'lost', phase = 'lost'"
    )
    await database.write(lambda connection: execute(connection, spoil))
    await database.write(
        lambda c: execute(c, "UPDATE job_terms SET term = 'status:queued' WHERE term = 'status:running'")
    )
    journal = SqlJournal(database)
    assert await journal.view(LAB, job_id(1)) == expected
    assert list(await journal.live()) == [expected]
    assert (await journal.find(LAB, JobQuery())).jobs == (expected,)
    assert await journal.refold_stale() == 1
    assert await journal.refold_stale() == 0
    assert (await journal.find(LAB, JobQuery(status=("running",)))).jobs == (expected,)
    assert not (await journal.find(LAB, JobQuery(status=("queued",)))).jobs
    assert (await append(journal, job_id(1), *interrupted_job()[4:])).is_terminal


async def test_after_an_upgrade_all_views_are_folded_again_in_small_transactions(database: Database) -> None:
    journal = SqlJournal(database)
    for number in range(25):
        await submit(journal, number)
        await append(journal, job_id(number), *interrupted_job())
    await submit(journal, 99)
    spoil = f"UPDATE jobs SET fold_version = {FOLD_VERSION - 1}, view = '{{}}'"
    await database.write(lambda connection: execute(connection, spoil))
    damage = f"UPDATE events SET data = '{{' WHERE job_id = '{job_id(3)}'"
    await database.write(lambda connection: execute(connection, damage))
    fresh = SqlJournal(database)
    assert await fresh.refold_stale(batch=5) == 25, "all but the damaged one"
    assert await fresh.refold_stale(batch=5) == 0
    assert len((await fresh.find(LAB, JobQuery(status=("completed",), limit=100))).jobs) >= 24


async def test_cached_views_equal_the_folded_events_of_every_job(database: Database) -> None:
    journal = SqlJournal(database)
    for number, upto in enumerate((0, 1, 4, 6, 8, len(interrupted_job()))):
        await submit(journal, number)
        await append(journal, job_id(number), *interrupted_job()[:upto])
    events = await journal.events(LAB, after=0, limit=1000)
    fresh = SqlJournal(database)  # without what the first has in memory
    for number in range(6):
        folded = fold(one for one in events if one.job_id == job_id(number))
        assert await fresh.view(LAB, job_id(number)) == folded
