"""Serve the agents that run on machines: claims, assignments, reports, checkpoints, ends."""
