"""Add the costs of attempts, and compute them from the events of all jobs.

The events are read as plain data, because the classes of later versions may differ.
"""

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JOB_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")
KINDS = (
    "JobSubmitted",
    "JobEdited",
    "AttemptLaunching",
    "AttemptLaunched",
    "AttemptClaimed",
    "MachineStarted",
    "TrainingStarted",
    "TrainingRestarted",
    "AttemptLost",
    "AttemptReleased",
    "OrphanEnded",
    "RecoveryStarted",
    "JobFailed",
    "JobDeleted",
)
PLANNED_STOPS = ("migrate", "handover", "deadline", "cheaper")
ROWS_PER_INSERT = 500
Json = dict[str, Any]

COSTS = (
    sa.Column("job_id", JOB_ID, nullable=False),
    sa.Column("attempt", sa.Integer(), nullable=False),
    sa.Column("part", sa.Integer(), nullable=False),
    sa.Column("project_id", ID, nullable=False),
    sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
    sa.Column("ended_at_ms", sa.BigInteger(), nullable=False),
    sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
    sa.Column("saved_microusd", sa.BigInteger(), nullable=False),
    sa.Column("person", sa.String(), nullable=False),
    sa.Column("backend", sa.String(), nullable=False),
    sa.Column("gpu_kind", sa.String(), nullable=False),
    sa.Column("gpu_count", sa.Integer(), nullable=False),
    sa.Column("interruptible", sa.Integer(), nullable=False),
    sa.Column("interrupted", sa.Integer(), nullable=False),
    sa.Column("lost_s", sa.Float(), nullable=False),
    sa.Column("lost_microusd", sa.BigInteger(), nullable=False),
    sa.Column("tags", sa.Text(), nullable=False),
)


def upgrade() -> None:
    costs = op.create_table(
        "costs",
        *COSTS,
        sa.PrimaryKeyConstraint("job_id", "attempt", "part"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
    )
    op.create_index("costs_by_end", "costs", ["project_id", "ended_at_ms"])
    connection = op.get_bind()
    rows: list[Json] = []
    for row in _cost_rows(connection):
        rows.append(row)
        if len(rows) == ROWS_PER_INSERT:
            connection.execute(costs.insert(), rows)
            rows = []
    if rows:
        connection.execute(costs.insert(), rows)


def _cost_rows(connection: sa.Connection) -> Iterator[Json]:
    """Yield the rows of all jobs. The events of a portion of the jobs are read at a time."""
    events = sa.table(
        "events", *map(sa.column, ("project_id", "position", "job_id", "at_ms", "kind", "data"))
    )
    after = ""
    while True:
        ids = connection.execute(
            sa.select(events.c.job_id)
            .distinct()
            .where(events.c.job_id > after)
            .order_by(events.c.job_id)
            .limit(ROWS_PER_INSERT)
        ).scalars()
        job_ids = list(ids)
        if not job_ids:
            return
        after = job_ids[-1]
        found = connection.execute(
            sa.select(events.c.job_id, events.c.project_id, events.c.at_ms, events.c.kind, events.c.data)
            .where(events.c.job_id.in_(job_ids), events.c.kind.in_(KINDS))
            .order_by(events.c.job_id, events.c.position)
        ).all()
        for job_id, history in groupby(found, key=lambda row: row.job_id):
            yield from _rows_of_job(
                job_id, [(row.project_id, row.at_ms, row.kind, row.data) for row in history]
            )


def _rows_of_job(job_id: str, history: list[tuple[int, int, str, str]]) -> Iterator[Json]:
    job: Json = {"job_id": job_id, "project_id": history[0][0], "person": "", "tags": "[]"}
    attempts: dict[int, Json] = {}
    deleted: Json | None = None
    for _, at_ms, kind, text in history:
        data = _decode(text)
        if data is None:
            continue
        if kind == "JobSubmitted":
            spec = data.get("spec") or {}
            job |= {"person": data.get("person", ""), "tags": json.dumps(spec.get("tags") or [])}
        elif kind == "JobEdited":
            job |= {} if data.get("tags") is None else {"tags": json.dumps(data["tags"])}
        elif kind == "JobDeleted":
            deleted = data | {"at_ms": at_ms}
        elif kind == "JobFailed":
            _set_failure(attempts.get(len(attempts), {}), data)
        elif kind == "AttemptLaunching":
            attempts[data["attempt"]] = {"launching_at_ms": at_ms, "offer": data["offer"], "orphans": []}
        elif data.get("attempt") in attempts:
            _apply(kind, attempts[data["attempt"]], data, at_ms)
    if deleted is not None:  # some of its events may be left if the deletion was interrupted
        yield _row_of_deleted_job(job, deleted)
        return
    for number, attempt in attempts.items():
        yield from _rows_of_attempt(job, number, attempt)


def _decode(text: str) -> Json | None:
    """Return the data of an event; None if it is damaged."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _apply(kind: str, attempt: Json, data: Json, at_ms: int) -> None:
    if kind in ("AttemptLaunched", "AttemptClaimed"):
        attempt["seen"] = True
    elif kind == "MachineStarted":
        attempt["started_at_ms"] = data["started_at_ms"]
    elif kind == "TrainingStarted":
        attempt["trained"] = True
    elif kind == "AttemptLost":
        attempt["lost"] = True
    elif kind == "AttemptReleased":
        attempt |= {"released_at_ms": at_ms, "usage": data.get("usage")}
    elif kind == "OrphanEnded":
        attempt["orphans"].append(data["usage"])
    elif kind in ("RecoveryStarted", "TrainingRestarted"):
        attempt["lost_s"] = attempt.get("lost_s", 0.0) + data.get("work_lost_s", 0.0)
        attempt["lost_microusd"] = attempt.get("lost_microusd", 0) + data.get("work_lost_microusd", 0)
        _set_failure(attempt, data)


def _set_failure(attempt: Json, data: Json) -> None:
    if "failure" in data:
        attempt["failure"] = data["failure"]


def _rows_of_attempt(job: Json, number: int, attempt: Json) -> Iterator[Json]:
    if "released_at_ms" not in attempt:
        return
    began_ms = attempt.get("started_at_ms") or attempt["launching_at_ms"]
    usage = attempt["usage"]
    if usage is None and (attempt.get("seen") or "started_at_ms" in attempt):
        usage = {"started_at_ms": began_ms, "ended_at_ms": attempt["released_at_ms"], "cost_microusd": 0}
    for part, each in enumerate((usage, *attempt["orphans"])):
        if each is not None:
            yield _row(job, number, part, attempt, each)


def _row(job: Json, number: int, part: int, attempt: Json, usage: Json) -> Json:
    offer = attempt["offer"]
    return job | {
        "attempt": number,
        "part": part,
        "started_at_ms": usage["started_at_ms"],
        "ended_at_ms": max(usage["ended_at_ms"], usage["started_at_ms"] + 1),
        "cost_microusd": usage["cost_microusd"],
        "saved_microusd": 0,  # on-demand prices were not recorded
        "backend": offer["backend"],
        "gpu_kind": offer.get("gpu_kind", ""),
        "gpu_count": offer.get("gpu_count", 0),
        "interruptible": int(offer.get("interruptible", False)),
        "interrupted": int(part == 0 and _was_interrupted(attempt)),
        "lost_s": attempt.get("lost_s", 0.0) if part == 0 else 0.0,
        "lost_microusd": attempt.get("lost_microusd", 0) if part == 0 else 0,
    }


def _was_interrupted(attempt: Json) -> bool:
    failure = attempt.get("failure")
    if not failure or not attempt.get("trained") or failure["code"] in PLANNED_STOPS:
        return False
    return failure["blame"] == "preemption" or (
        failure["blame"] == "infrastructure" and bool(attempt.get("lost"))
    )


def _row_of_deleted_job(job: Json, deleted: Json) -> Json:
    """Return the row of a job whose events are gone: only its cost, and when it was deleted, are known."""
    at_ms = deleted["at_ms"]
    usage = {"started_at_ms": at_ms, "ended_at_ms": at_ms, "cost_microusd": deleted["cost_microusd"]}
    return _row(job | {"person": "", "tags": "[]"}, 0, 0, {"offer": {"backend": ""}}, usage)
