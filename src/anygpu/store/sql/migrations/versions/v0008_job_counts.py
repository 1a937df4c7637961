"""Add the number of jobs by status, and the main metric of attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "job_counts",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("project_id", "status"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO job_counts (project_id, status, count)"
        " SELECT project_id, status, count(*) FROM jobs GROUP BY project_id, status"
    )
    op.add_column("attempts", sa.Column("main_metric", sa.Text()))
