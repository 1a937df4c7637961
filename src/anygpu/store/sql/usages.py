"""What projects have used of machines of one's own: one row for each kind of slot, however many jobs there were."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from anygpu.events.fold import Recorded
from anygpu.events.slots import SlotKind, SlotUsage, TenantKey, tenant_of, used_slot_s
from anygpu.events.types import AttemptReleased
from anygpu.events.view import JobView
from anygpu.store.sql.statements import row, rows, run


def add(connection: Connection, project_id: int, view: JobView, recorded: Sequence[Recorded]) -> None:
    """In the transaction of the release itself, whose project row is locked: counted once, whatever crashes."""
    for one in recorded:
        used_s = used_slot_s(view, one.event.attempt) if isinstance(one.event, AttemptReleased) else 0.0
        if used_s:
            _add(connection, project_id, tenant_of(view).kind, used_s, one.at_ms / 1000)


def _add(connection: Connection, project_id: int, kind: SlotKind, used_s: float, now_s: float) -> None:
    sql = "SELECT slot_s, at_s FROM slot_usages WHERE project_id = ? AND kind = ?"
    found = row(connection, sql, (project_id, str(kind)))
    usage = (SlotUsage(*found) if found else SlotUsage()).add(used_s, now_s)
    run(
        connection,
        "INSERT INTO slot_usages (project_id, kind, slot_s, at_s) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project_id, kind) DO UPDATE SET slot_s = excluded.slot_s, at_s = excluded.at_s",
        (project_id, str(kind), usage.gpu_s, usage.at_s),
    )


def read(connection: Connection) -> Mapping[TenantKey, SlotUsage]:
    sql = (
        "SELECT p.organisation, p.project, u.kind, u.slot_s, u.at_s"
        " FROM slot_usages u JOIN projects p ON p.id = u.project_id"
    )
    return {
        TenantKey(organisation, project, SlotKind(kind)): SlotUsage(slot_s, at_s)
        for organisation, project, kind, slot_s, at_s in rows(connection, sql)
    }
