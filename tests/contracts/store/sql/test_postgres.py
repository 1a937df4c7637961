"""PostgreSQL shared by several servers: each `PostgresDatabase` here stands for a process of its own."""

import asyncio
import contextlib
import os
import select
import socket
import threading
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import Connection

from anygpu.errors import AnygpuError, LeaseLost, StoreBusy
from anygpu.events.types import JobWaited
from anygpu.store.journal import Guard
from anygpu.store.reports import ReportBatch, report_number
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.engine.database import Database, Work, open_database
from anygpu.store.sql.engine.statements import execute, fetch_all, fetch_one
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store import attempts
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.testing.contracts.journal import always, append, submit
from anygpu.testing.samples.jobs import LAB, START_MS, job_id


class DatabaseProxy:
    """Passes TCP connections on to the Unix socket of PostgreSQL. While `is_silent`, it answers nothing."""

    def __init__(self, socket_directory: str) -> None:
        self.is_silent = False
        self._target = f"{socket_directory}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self.disconnect()

    def disconnect(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(near)
            if not self.is_silent:
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError):
            far.connect(self._target)
            while True:
                for source in select.select([near, far], [], [])[0]:
                    if not (data := source.recv(65536)):
                        return
                    (far if source is near else near).sendall(data)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[DatabaseProxy]:
    made = DatabaseProxy(parse_qs(urlsplit(postgres_url).query)["host"][0])
    yield made
    made.close()


def socket_limits(connection: Connection) -> list[int]:
    """Return after which times the operating system ends this connection if the other side does not answer."""
    driver = connection.connection.driver_connection
    assert driver is not None
    with socket.socket(fileno=os.dup(driver.fileno())) as own:
        keepalive = own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        return [keepalive, *(own.getsockopt(socket.IPPROTO_TCP, name) for name in names)]


@pytest.mark.parametrize(
    ("parameters", "limits"),
    [
        ("", [1, 10, 5, 2, 20_000]),
        ("?keepalives_idle=77&tcp_user_timeout=9000", [1, 77, 5, 2, 9000]),
    ],
)
async def test_a_connection_ends_if_the_database_disappears(
    proxy: DatabaseProxy, parameters: str, limits: list[int]
) -> None:
    database = await open_database(f"postgresql://postgres@{proxy.address}/postgres{parameters}")
    try:
        assert await database.read(socket_limits) == limits
    finally:
        await database.close()


async def test_calls_fail_while_the_database_does_not_answer_and_succeed_afterwards(
    proxy: DatabaseProxy,
) -> None:
    database = await open_database(f"postgresql://postgres@{proxy.address}/postgres?connect_timeout=2")
    try:
        proxy.is_silent = True
        proxy.disconnect()
        with pytest.raises(StoreBusy):
            await asyncio.wait_for(database.read(lambda c: fetch_one(c, "SELECT 1")), timeout=30)
        proxy.is_silent = False
        assert await database.read(lambda c: fetch_one(c, "SELECT 1")) == (1,)
    finally:
        await database.close()


async def test_writers_in_two_servers_leave_no_gap_and_followers_miss_nothing(
    servers: list[Database],
) -> None:
    journals = [SqlJournal(database) for database in servers]
    for number in range(6):
        await submit(journals[0], number)
    last = 6 + 6 * 15

    async def write(number: int) -> None:
        for turn in range(15):
            await append(journals[(number + turn) % 2], job_id(number), JobWaited(reason=str(turn)))

    async def follow(journal: SqlJournal) -> list[int]:
        seen: list[int] = []
        while len(seen) < last:
            found = await journal.events(LAB, after=len(seen), limit=5)
            seen += [one.position for one in found]
        return seen

    following = asyncio.gather(*map(follow, journals))
    await asyncio.gather(*map(write, range(6)))
    assert await asyncio.wait_for(following, timeout=30) == [list(range(1, last + 1))] * 2
    for number in range(6):
        assert await journals[0].view(LAB, job_id(number)) == await journals[1].view(LAB, job_id(number))


async def test_one_key_submitted_to_two_servers_at_once_is_one_job(servers: list[Database]) -> None:
    journals = [SqlJournal(database) for database in servers]
    views = await asyncio.gather(*(submit(journals[n % 2], n, idempotency_key="k") for n in range(20)))
    assert len({view.id for view in views}) == 1
    assert await journals[0].head(LAB) == 1


async def test_only_one_server_leads_and_the_other_cannot_write_as_leader(servers: list[Database]) -> None:
    first, second = (SqlJournal(database) for database in servers)
    await submit(first, 1)
    asked = await asyncio.gather(
        *(journal.acquire("control", name, ttl_s=60) for journal, name in ((first, "a"), (second, "b")) * 5)
    )
    leaders = {guard.holder for guard in asked if guard is not None}
    assert len(leaders) == 1
    (leader,) = leaders
    never = Guard(name="control", holder="b" if leader == "a" else "a", epoch=1)
    with pytest.raises(LeaseLost):
        await second.transact(SYSTEM, job_id(1), always(JobWaited(reason="x")), at_ms=START_MS, guard=never)


async def test_transactions_that_block_each_other_are_tried_again(servers: list[Database]) -> None:
    await servers[0].write(
        lambda c: execute(
            c, "INSERT INTO leases (name, holder, epoch, expires_ms) VALUES ('x', '', 0, 0), ('y', '', 0, 0)"
        )
    )

    def crossed(first: str, second: str) -> Work[None]:
        def work(connection: Connection) -> None:
            sql = "UPDATE leases SET epoch = epoch + 1 WHERE name = ?"
            execute(connection, sql, (first,))
            fetch_one(connection, "SELECT pg_sleep(0.05)")
            execute(connection, sql, (second,))

        return work

    await asyncio.gather(
        servers[0].write(crossed("x", "y")),
        servers[1].write(crossed("y", "x")),
    )
    assert await servers[0].read(lambda c: fetch_one(c, "SELECT sum(epoch) FROM leases")) == (4,)


async def test_a_connection_that_dies_is_busy_once_and_replaced(servers: list[Database]) -> None:
    reports = SqlReports(servers[0])
    await reports.record_heartbeat(job_id(1), 1, at_ms=START_MS)

    def die(connection: Connection) -> None:
        fetch_one(connection, "SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreBusy):
        await servers[0].write(die)
    row_after = await reports.ingest(
        job_id(1), 1, ReportBatch(first=1, last=1, logs=[(1, b"x")]), at_ms=START_MS
    )
    assert (row_after.acked, row_after.beats) == (1, 2)


async def test_the_quota_never_touches_the_log_of_a_node_that_is_being_written(
    servers: list[Database],
) -> None:
    kib, job, busy = 1024, job_id(1), report_number(1, 1)
    reports = SqlReports(servers[0], log_quota_bytes=64 * kib)

    async def store(number: int, seq: int, size_kib: int) -> None:
        batch = ReportBatch(first=seq, last=seq, logs=[(seq, b"x" * size_kib * kib)])
        await reports.ingest(job, number, batch, at_ms=START_MS)

    async def stored_kib() -> list[int]:
        sql = "SELECT log_stored / 1024 FROM attempts WHERE job_id = ? ORDER BY number"
        return [row[0] for row in await servers[0].read(lambda c: fetch_all(c, sql, (job,)))]

    await store(1, 1, 16)
    await store(busy, 1, 48)
    is_locked, may_end = threading.Event(), threading.Event()

    def write_report(connection: Connection) -> None:
        attempts.lock(connection, job, busy)
        is_locked.set()
        may_end.wait(60)

    writing = asyncio.create_task(servers[1].write(write_report))
    await asyncio.to_thread(is_locked.wait, 60)
    try:
        await asyncio.wait_for(store(1, 2, 8), 30)
        assert await stored_kib() == [24, 48]
    finally:
        may_end.set()
        await writing
    await store(1, 3, 4)
    assert await stored_kib() == [28, 36]


async def test_every_connection_of_the_pool_may_have_died(servers: list[Database]) -> None:
    await asyncio.gather(
        *(servers[0].read(lambda c: fetch_one(c, "SELECT pg_sleep(0.02)")) for _ in range(6))
    )
    await servers[1].read(
        lambda c: fetch_one(
            c,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
        )
    )
    assert await SqlJournal(servers[0]).head(LAB) == 0


async def test_a_cancelled_read_does_not_affect_others(servers: list[Database]) -> None:
    slow = [
        asyncio.create_task(servers[0].read(lambda c: fetch_one(c, "SELECT pg_sleep(0.05)")))
        for _ in range(20)
    ]
    await asyncio.sleep(0.01)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    journal = SqlJournal(servers[0])
    await submit(journal, 1)
    assert await journal.head(LAB) == 1


async def test_a_server_that_is_not_there_is_busy(tmp_path: object) -> None:
    with pytest.raises(StoreBusy):
        await open_database(f"postgresql://postgres@/postgres?host={tmp_path}")


async def test_reading_cannot_write(servers: list[Database]) -> None:
    with pytest.raises(Exception, match="read-only") as caught:
        await servers[0].read(lambda connection: execute(connection, "DELETE FROM jobs"))
    assert not isinstance(caught.value, AnygpuError)
