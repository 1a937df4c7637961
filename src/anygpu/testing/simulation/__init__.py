"""The simulation: the real control loop in virtual time, with simulated agents, providers and faults.

docs/explanation/simulation.md explains the simulation; `anygpu.testing.simulate` runs it.
"""
