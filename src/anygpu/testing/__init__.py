"""Test support: contract suites (tests for each implementation of an interface), simulation, stores, servers."""
