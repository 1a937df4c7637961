"""The tables of the current schema version.

`migrations/` upgrades older databases; a test checks that the migrations create the same tables.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Constraints have names, so that migrations can change them on SQLite.
METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite generates ids only for INTEGER keys; in PostgreSQL INTEGER ids end at two billion.
Id = BigInteger().with_variant(Integer(), "sqlite")

# Id prefixes are found by comparison, which must compare bytes and ignore the locale.
JobId = String().with_variant(String(collation="C"), "postgresql")

Table(
    "projects",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("organisation", String, nullable=False),
    Column("project", String, nullable=False),
    Column("head", BigInteger, nullable=False),  # the position of the newest event
    UniqueConstraint("organisation", "project"),
)

Table(
    "events",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True),
    Column("position", BigInteger, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("version", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Index("events_of_job", "job_id", "position"),
    sqlite_with_rowid=False,
)

Table(
    "jobs",
    METADATA,
    Column("id", JobId, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id"), nullable=False),
    Column("number", BigInteger, nullable=False),  # position of its first event; the order in lists
    Column("position", BigInteger, nullable=False),
    Column("submitted_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("status", String, nullable=False),
    Column("phase", String, nullable=False),
    Column("live", Boolean(create_constraint=False), nullable=False),
    Column("fold_version", Integer, nullable=False),
    Column("view", Text, nullable=False),
    Index("jobs_by_number", "project_id", "number", unique=True),
    Index("jobs_by_id", "project_id", "id", "number"),
    Index("jobs_by_time", "project_id", "submitted_at_ms", "number"),
    Index("jobs_by_end", "ended_at_ms"),
    Index("jobs_live", "submitted_at_ms", "id", sqlite_where=text("live"), postgresql_where=text("live")),
)

Table(  # the number of jobs in each project by status
    "job_counts",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True),
    Column("status", String, primary_key=True),
    Column("count", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

Table(
    "job_terms",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True),
    Column("term", String, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    sqlite_with_rowid=False,
)

Table(  # slot time used on the organisation's own machines; see `anygpu.events.slots`
    "slot_usages",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("slot_s", Float, nullable=False),  # value at `at_s`; it decays with a half-life of three days
    Column("at_s", Float, nullable=False),
    sqlite_with_rowid=False,
)

Table(  # one row for each machine of a released attempt; see `anygpu.events.costs`. Deleted jobs keep theirs.
    "costs",
    METADATA,
    Column("job_id", JobId, primary_key=True),
    Column("attempt", Integer, primary_key=True),  # 0: a job that was deleted before this table existed
    Column("part", Integer, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id"), nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger, nullable=False),
    Column("cost_microusd", BigInteger, nullable=False),
    Column("saved_microusd", BigInteger, nullable=False),
    Column("person", String, nullable=False),
    Column("backend", String, nullable=False),
    Column("gpu_kind", String, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("interruptible", Integer, nullable=False),  # 0 or 1, as sums count them
    Column("interrupted", Integer, nullable=False),
    Column("lost_s", Float, nullable=False),
    Column("lost_microusd", BigInteger, nullable=False),
    Column("tags", Text, nullable=False),  # a JSON list
    Index("costs_by_end", "project_id", "ended_at_ms"),
)

Table(
    "idempotency_keys",
    METADATA,
    Column("project_id", Id, ForeignKey("projects.id"), primary_key=True),
    Column("key", String, primary_key=True),
    Column("job_id", String, nullable=False),
    sqlite_with_rowid=False,
)

Table(  # their ids cannot be used again
    "deleted_jobs",
    METADATA,
    Column("job_id", JobId, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id"), nullable=False),
    Column("deleted_at_ms", BigInteger, nullable=False),
)

Table(
    "leases",
    METADATA,
    Column("name", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)

Table(  # the server processes that use the database; see `anygpu.store.sql.servers`
    "servers",
    METADATA,
    Column("id", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("url", String, nullable=False),
    Column("agent_url", String, nullable=False),
    Column("version", String, nullable=False),
    Column("schema_version", String, nullable=False),
    Column("started_at_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
)

Table(
    "attempts",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("job_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("acked", BigInteger, nullable=False),
    Column("beats", BigInteger, nullable=False),
    Column("last_seen_ms", BigInteger, nullable=False),
    Column("phase", String, nullable=False),
    Column("progress", Text, nullable=False),
    Column("telemetry", Text, nullable=False),
    Column("telemetry_seen", BigInteger, nullable=False),
    Column("telemetry_stride", BigInteger, nullable=False),  # every n-th sample is kept
    Column("dropped_points", BigInteger, nullable=False),
    Column("metric_points", BigInteger, nullable=False),
    Column("metric_names", Integer, nullable=False),
    Column("sorted_points", BigInteger, nullable=False),  # number of points that are also in metric_chunks
    Column("loose_batches", Integer, nullable=False),  # rows of metric_batches not yet merged
    Column("log_bytes", BigInteger, nullable=False),
    Column("log_stored", BigInteger, nullable=False),
    Column("log_head", BigInteger, nullable=False),  # the first bytes, which the quota never drops
    Column(
        "log_kept_from", BigInteger, nullable=False
    ),  # bytes between the head and this offset were dropped
    Column("log_joined", BigInteger, nullable=False),  # bytes before this offset are in large chunks
    Column("loose_logs", Integer, nullable=False),
    # Retention deleted the bytes; the counts above stay.
    Column("pruned", Boolean(create_constraint=False), nullable=False),
    # Complete lines of the log, the offset of its last line, and the newest mark; see `anygpu.store.logs.index`.
    # NULL if the log was stored before lines were counted.
    Column("log_lines", BigInteger),
    Column("log_line_start", BigInteger),
    Column("log_marked", BigInteger),
    Column("log_marked_ms", BigInteger),
    Column("main_metric", Text),  # JSON of `anygpu.store.main_metric`
    UniqueConstraint("job_id", "number"),
)


def _attempt_column() -> Column[int]:
    return Column(
        "attempt_id", Id, ForeignKey("attempts.id", ondelete="CASCADE"), primary_key=True, nullable=False
    )


Table(
    "metric_series",
    METADATA,
    _attempt_column(),
    Column("series", Integer, primary_key=True),
    Column("name", String, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("low", Float),  # NULL means NaN, which SQLite cannot store
    Column("high", Float),
    Column("last", Float),
    Column("last_step", BigInteger, nullable=False),
    Column("tail_first", BigInteger, nullable=False),  # the newest chunk, which may still grow
    Column("tail_count", Integer, nullable=False),
    UniqueConstraint("attempt_id", "name"),
)

Table(  # points of all metrics in arrival order, for followers
    "metric_batches",
    METADATA,
    _attempt_column(),
    Column("first", BigInteger, primary_key=True),  # ordinal of its first point
    Column("count", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

Table(  # the same points by metric, with a sketch, for charts
    "metric_chunks",
    METADATA,
    _attempt_column(),
    Column("series", Integer, primary_key=True),
    Column("first", BigInteger, primary_key=True),  # ordinal of its first point
    Column("last", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("sketch", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

Table(
    "log_chunks",
    METADATA,
    _attempt_column(),
    Column("start", BigInteger, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

Table(  # where some lines of a log start; see `anygpu.store.logs.index`
    "log_marks",
    METADATA,
    _attempt_column(),
    Column("line", BigInteger, primary_key=True),
    Column("start", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

Table(
    "telemetry",
    METADATA,
    _attempt_column(),
    Column("number", BigInteger, primary_key=True),
    Column("data", Text, nullable=False),
    sqlite_with_rowid=False,
)

Table(
    "secrets",
    METADATA,
    Column("organisation", String, primary_key=True),
    Column("project", String, primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    Column("person", String, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

Table(  # backends an organisation has configured
    "profiles",
    METADATA,
    Column("name", String, primary_key=True),  # unique on the server, because attempts refer to it
    Column("organisation", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("options", Text, nullable=False),
    Column("credentials", LargeBinary),  # encrypted; NULL if the environment provides them
    Column("credential_names", Text, nullable=False),
    Column("person", String, nullable=False),
    Column("updated_at_ms", BigInteger, nullable=False),
)

Table(
    "tokens",
    METADATA,
    Column("id", String, primary_key=True),
    Column("sha256", String, nullable=False, unique=True),
    Column("organisation", String, nullable=False),
    Column("project", String, nullable=False),
    Column("person", String, nullable=False),
    Column("role", String, nullable=False),
    Column("label", String, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("used_at_ms", BigInteger),
    Column("expires_at_ms", BigInteger),
    Column("parent", String),  # the token that a browser session or login link was made from
    Index("tokens_of_project", "organisation", "project"),
    Index("tokens_of_parent", "parent"),
)

Table(  # values that belong to the whole database; see `anygpu.store.sql.engine.properties`
    "properties",
    METADATA,
    Column("name", String, primary_key=True),
    Column("value", Text, nullable=False),
)

Table(  # time and cost of completed jobs, and the predictions
    "outcomes",
    METADATA,
    Column("job_id", String, primary_key=True),
    Column("organisation", String, nullable=False),
    Column("project", String, nullable=False),
    Column("fingerprint", String, nullable=False),  # equal for jobs whose steps take the same time
    Column("backend", String, nullable=False),
    Column("gpu_kind", String, nullable=False),
    Column("gpu_count", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("length", String, nullable=False),  # requested length, such as "epochs 3"
    Column("steps", BigInteger),
    Column("step_s", Float),
    Column("training_s", Float, nullable=False),
    Column("wall_s", Float, nullable=False),
    Column("cost_microusd", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger, nullable=False),
    Column("predicted", Text),  # the prediction before the job ran
    Column("calibrated", Text),  # the prediction after the first steps
    Index("outcomes_of_workload", "organisation", "fingerprint", "ended_at_ms"),
    Index("outcomes_of_organisation", "organisation", "ended_at_ms"),
    Index("outcomes_by_end", "ended_at_ms"),
)
