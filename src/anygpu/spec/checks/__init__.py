"""Checks of a valid spec when a job is submitted: its trainer, its files, and fields that have no effect."""
