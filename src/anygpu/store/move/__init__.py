"""Move an SQLite database to PostgreSQL: copy all tables, verify the copy, and mark the old database as moved."""
