"""Add backend profiles, which organisations configure."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("organisation", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("credentials", sa.LargeBinary()),
        sa.Column("credential_names", sa.Text(), nullable=False),
        sa.Column("person", sa.String(), nullable=False),
        sa.Column("updated_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
