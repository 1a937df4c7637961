"""Add the outcomes of completed jobs: time and cost, and what was predicted."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "outcomes",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("organisation", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("gpu_kind", sa.String(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("length", sa.String(), nullable=False),
        sa.Column("steps", sa.BigInteger()),
        sa.Column("step_s", sa.Float()),
        sa.Column("training_s", sa.Float(), nullable=False),
        sa.Column("wall_s", sa.Float(), nullable=False),
        sa.Column("cost_microusd", sa.BigInteger(), nullable=False),
        sa.Column("ended_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("predicted", sa.Text()),
        sa.Column("calibrated", sa.Text()),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("outcomes_of_workload", "outcomes", ["organisation", "fingerprint", "ended_at_ms"])
    op.create_index("outcomes_of_organisation", "outcomes", ["organisation", "ended_at_ms"])
    op.create_index("outcomes_by_end", "outcomes", ["ended_at_ms"])
