"""Run attempts on this machine: agents are detached subprocesses; GPU and CPU slots are lock files."""

from anygpu.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
