"""A simulated cloud on loopback whose machines really run, for tests and rehearsals.

It implements the providers' own APIs and shares no code with the adapters that call them.
"""

from anygpu.cloudsim.cloud import CapacityLimits
from anygpu.cloudsim.lifecycle import CloudTiming
from anygpu.cloudsim.market import CapacityTrace, read_trace
from anygpu.cloudsim.simulator import CloudSim, SimOptions

__all__ = ["CapacityLimits", "CapacityTrace", "CloudSim", "CloudTiming", "SimOptions", "read_trace"]
