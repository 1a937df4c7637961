"""Events of jobs, and the fold that derives a job's state from them."""
