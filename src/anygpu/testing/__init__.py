"""Support for tests: suites that test every implementation of an interface, the simulation, stores and servers."""
