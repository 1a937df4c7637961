"""The database itself: connections, tables, migrations and statements for SQLite and PostgreSQL."""
