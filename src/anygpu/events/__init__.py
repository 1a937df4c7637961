"""Events of jobs, and the fold that computes a job's view from its events."""
