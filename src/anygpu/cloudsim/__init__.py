"""A simulated cloud on loopback addresses, for tests and demos. Its machines run real processes.

The simulator implements the providers' own APIs and shares no code with the backends that call them.
"""

from anygpu.cloudsim.cloud import CapacityLimits
from anygpu.cloudsim.lifecycle import CloudTiming
from anygpu.cloudsim.market import CapacityTrace, read_trace
from anygpu.cloudsim.simulator import CloudSim, SimOptions

__all__ = ["CapacityLimits", "CapacityTrace", "CloudSim", "CloudTiming", "SimOptions", "read_trace"]
