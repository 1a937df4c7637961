"""The first tables: the journal, reports, secrets and tokens."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JOB_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    _create_journal()
    _create_evidence()
    _create_keys()


def _create_journal() -> None:
    op.create_table(
        "projects",
        sa.Column("id", ID, nullable=False),
        sa.Column("organisation", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("head", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("organisation", "project"),
    )
    op.create_table(
        "events",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("project_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_index("events_of_job", "events", ["job_id", "position"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", JOB_ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger()),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("live", sa.Boolean(), nullable=False),
        sa.Column("fold_version", sa.Integer(), nullable=False),
        sa.Column("view", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_by_end", "jobs", ["ended_at_ms"], unique=False)
    op.create_index("jobs_by_id", "jobs", ["project_id", "id", "number"], unique=False)
    op.create_index("jobs_by_number", "jobs", ["project_id", "number"], unique=True)
    op.create_index("jobs_by_time", "jobs", ["project_id", "submitted_at_ms", "number"], unique=False)
    op.create_index(
        "jobs_live",
        "jobs",
        ["submitted_at_ms", "id"],
        unique=False,
        sqlite_where=sa.text("live"),
        postgresql_where=sa.text("live"),
    )
    op.create_table(
        "job_terms",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("term", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("project_id", "term", "number"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("project_id", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_evidence() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", ID, nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("acked", sa.BigInteger(), nullable=False),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(), nullable=False),
        sa.Column("progress", sa.Text(), nullable=False),
        sa.Column("telemetry", sa.Text(), nullable=False),
        sa.Column("telemetry_seen", sa.BigInteger(), nullable=False),
        sa.Column("telemetry_stride", sa.BigInteger(), nullable=False),
        sa.Column("dropped_points", sa.BigInteger(), nullable=False),
        sa.Column("metric_points", sa.BigInteger(), nullable=False),
        sa.Column("metric_names", sa.Integer(), nullable=False),
        sa.Column("sorted_points", sa.BigInteger(), nullable=False),
        sa.Column("loose_batches", sa.Integer(), nullable=False),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("log_stored", sa.BigInteger(), nullable=False),
        sa.Column("log_head", sa.BigInteger(), nullable=False),
        sa.Column("log_kept_from", sa.BigInteger(), nullable=False),
        sa.Column("log_joined", sa.BigInteger(), nullable=False),
        sa.Column("loose_logs", sa.Integer(), nullable=False),
        sa.Column("pruned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "number"),
    )
    op.create_table(
        "metric_series",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("series", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("low", sa.Float()),
        sa.Column("high", sa.Float()),
        sa.Column("last", sa.Float()),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("tail_first", sa.BigInteger(), nullable=False),
        sa.Column("tail_count", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "series"),
        sa.UniqueConstraint("attempt_id", "name"),
    )
    op.create_table(
        "metric_batches",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "first"),
    )
    op.create_table(
        "metric_chunks",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("series", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "series", "first"),
    )
    op.create_table(
        "log_chunks",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "start"),
    )
    op.create_table(
        "telemetry",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "number"),
        sqlite_with_rowid=False,
    )


def _create_keys() -> None:
    op.create_table(
        "secrets",
        sa.Column("organisation", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("organisation", "project", "name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("organisation", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("created_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("used_at_ms", sa.BigInteger()),
        sa.Column("expires_at_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("sha256"),
    )
    op.create_index("tokens_of_project", "tokens", ["organisation", "project"], unique=False)
