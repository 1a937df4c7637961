"""The journal, reports and tokens in SQL: SQLite for the embedded server, PostgreSQL for larger ones.

Queries are plain functions that take a connection. A `Database` runs them in transactions.
"""
