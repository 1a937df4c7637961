"""Prepare a job before it starts: its files, its Python environment, its checkpoint."""
