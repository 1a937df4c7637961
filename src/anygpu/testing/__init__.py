"""Test support: contract suites, the simulation and its invariants, in-memory stores, servers for tests."""
