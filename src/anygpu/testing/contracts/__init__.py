"""Contract suites: for each interface, the tests that every implementation must pass.

To test an implementation, subclass the suite and provide a fixture that returns the implementation.
"""
