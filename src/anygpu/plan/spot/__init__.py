"""Decide between spot and on-demand machines for a job with a deadline."""
