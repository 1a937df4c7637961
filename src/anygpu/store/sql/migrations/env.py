"""Alembic environment: use the given connection, inside the caller's transaction."""

from alembic import context

from anygpu.store.sql.engine.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite changes a table by rebuilding it
)
context.run_migrations()
