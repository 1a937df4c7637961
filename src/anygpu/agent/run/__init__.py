"""Run the job's process: read its output, watch it, stop it."""
