"""A cloud that rents machines which really run, on loopback: to test against, and to rehearse with.

It speaks the providers' own APIs and shares no code with the adapters that call them.
"""

from anygpu.testing.cloud.cloud import Limits
from anygpu.testing.cloud.lifecycle import Timing
from anygpu.testing.cloud.market import Trace, read_trace
from anygpu.testing.cloud.sim import CloudSim, SimOptions

__all__ = ["CloudSim", "Limits", "SimOptions", "Timing", "Trace", "read_trace"]
