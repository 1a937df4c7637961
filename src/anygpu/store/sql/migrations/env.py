"""How Alembic reaches the database: by the connection it is given, inside the transaction its caller holds."""

from alembic import context

from anygpu.store.sql.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,  # SQLite changes a table by building it anew
)
context.run_migrations()
