"""Add the addresses of the server processes that share the database."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
oldest_server = "0009"  # it does not use the new table


def upgrade() -> None:
    op.create_table(
        "servers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("agent_url", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("schema_version", sa.String(), nullable=False),
        sa.Column("started_at_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
