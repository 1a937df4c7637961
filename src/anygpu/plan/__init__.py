"""Plan where a job should run: pure functions that rank the offers for a job and give reasons."""
