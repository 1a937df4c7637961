"""This machine: agents as detached subprocesses, GPUs as slots locked on the host, CPUs as slots of this server."""

from anygpu.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
