"""What is done before a job is stored: plan it, show its native request, and refuse it if it could not run."""
