"""Add the ids of deleted jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JOB_ID = sa.String().with_variant(sa.String(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "deleted_jobs",
        sa.Column("job_id", JOB_ID, nullable=False),
        sa.Column("project_id", ID, nullable=False),
        sa.Column("deleted_at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("job_id"),
    )
