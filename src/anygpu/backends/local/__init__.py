"""Run attempts on this machine. The agents are detached subprocesses.

GPUs and CPUs are reserved for attempts with lock files.
"""

from anygpu.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
