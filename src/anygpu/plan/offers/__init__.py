"""Compare the offers for a job: check fit, estimate time and cost, rank, explain."""
