"""Contract suites, one for each interface.

Tests of an implementation subclass a suite and provide its fixture.
"""
