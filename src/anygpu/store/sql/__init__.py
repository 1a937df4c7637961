"""The journal, evidence, secrets and tokens in SQL: SQLite in the embedded server, PostgreSQL beyond.

Everything is plain functions over a connection; a `Database` runs them.
"""
