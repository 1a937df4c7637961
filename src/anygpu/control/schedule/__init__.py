"""Decide where and when a job runs, whether it is preempted, and whether it should migrate."""
