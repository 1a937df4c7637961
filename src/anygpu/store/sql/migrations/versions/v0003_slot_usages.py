"""Add how much GPU and CPU time each project has used on its organisation's own machines."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "slot_usages",
        sa.Column("project_id", ID, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("slot_s", sa.Float(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "kind"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sqlite_with_rowid=False,
    )
