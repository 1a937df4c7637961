"""How each event changes the state of a job, and which events the state does not allow.

`apply` calls the function for the type of the event. The modules register these functions when they are imported.
"""

from anygpu.events.transitions import attempts, checkpoints, jobs
from anygpu.events.transitions.rules import InvalidEvent, apply

__all__ = ["InvalidEvent", "apply", "attempts", "checkpoints", "jobs"]
