"""Run attempts on rented machines: one lifecycle for all providers."""
