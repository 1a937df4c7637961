"""The simulation: the real control loop in virtual time, with simulated agents, providers, clients and faults.

docs/explanation/simulation.md explains it; `anygpu.testing.simulate` runs it.
"""
