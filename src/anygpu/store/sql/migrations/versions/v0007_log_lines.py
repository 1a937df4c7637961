"""Add the number of lines of logs, and where some of the lines start. Older logs are counted when they are read."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for name in ("log_lines", "log_line_start", "log_marked", "log_marked_ms"):
        op.add_column("attempts", sa.Column(name, sa.BigInteger()))
    op.create_table(
        "log_marks",
        sa.Column("attempt_id", ID, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id", "line"),
        sqlite_with_rowid=False,
    )
