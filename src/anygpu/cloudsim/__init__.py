"""A simulated cloud on loopback addresses, for tests and demos. Its machines run real processes.

The simulator answers the same HTTP requests as the real providers. It shares no code with the backends that
send these requests, so an error in a backend cannot be hidden by the same error here.
"""

from anygpu.cloudsim.cloud import CapacityLimits
from anygpu.cloudsim.lifecycle import CloudTiming
from anygpu.cloudsim.market import CapacityTrace, read_trace
from anygpu.cloudsim.simulator import CloudSim, SimOptions

__all__ = ["CapacityLimits", "CapacityTrace", "CloudSim", "CloudTiming", "SimOptions", "read_trace"]
