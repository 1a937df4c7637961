"""Reports of attempts in SQL: logs, metrics and telemetry."""
