"""Everything on this machine that belongs to an attempt: the same eyes and hands as on any other machine."""

from anygpu.agent.box_processes import kill_all, marked

__all__ = ["kill_all", "marked"]
