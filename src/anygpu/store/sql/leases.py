"""Who leads, by the database's own clock."""

# ruff: noqa: S608 - statements are put together from our own words; every value is a parameter

from sqlalchemy import Connection

from anygpu.errors import LeaseLost
from anygpu.store.journal import Guard
from anygpu.store.sql.statements import for_share, for_update, now_ms, row, run


def acquire(connection: Connection, name: str, holder: str, ttl_s: float) -> Guard | None:
    """The holder keeps its epoch as long as nobody came between; another one gets the next."""
    now = now_ms(connection)
    run(
        connection,
        "INSERT INTO leases (name, holder, epoch, expires_ms) VALUES (?, '', 0, 0) ON CONFLICT DO NOTHING",
        (name,),
    )
    sql = "SELECT holder, epoch, expires_ms FROM leases WHERE name = ?" + for_update(connection)
    found = row(connection, sql, (name,))
    was, epoch, expires_ms = found if found else ("", 0, 0)
    if was != holder and expires_ms > now:
        return None
    epoch += was != holder
    run(
        connection,
        "UPDATE leases SET holder = ?, epoch = ?, expires_ms = ? WHERE name = ?",
        (holder, epoch, now + round(ttl_s * 1000), name),
    )
    return Guard(name=name, holder=holder, epoch=epoch)


def check(connection: Connection, guard: Guard | None) -> None:
    """Held until the transaction ends, so nobody takes over between this look and the commit."""
    if guard is None:
        return
    sql = "SELECT 1 FROM leases WHERE name = ? AND holder = ? AND epoch = ?" + for_share(connection)
    if row(connection, sql, (guard.name, guard.holder, guard.epoch)) is None:
        raise LeaseLost()
