"""Rented machines: one lifecycle for every provider, and one small file for each."""
