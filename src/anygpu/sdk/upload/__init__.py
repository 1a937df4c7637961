"""What is sent with a job: its spec, working directory and requirements."""
