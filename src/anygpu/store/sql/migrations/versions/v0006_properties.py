"""Add named values of the database, and the token that a browser session belongs to."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "properties",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.add_column("tokens", sa.Column("parent", sa.String()))
    op.create_index("tokens_of_parent", "tokens", ["parent"])
