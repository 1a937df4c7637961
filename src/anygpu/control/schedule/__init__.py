"""Decide where and when a job runs, whether it has to make room, and whether it should move."""
