"""Simulated agents: the scripts they run, what they upload, and the faults that affect them."""
