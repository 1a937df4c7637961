"""Simulated providers of machines, and backends that use them."""
