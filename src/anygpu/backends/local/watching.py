"""Tells at once when an agent dies, where the kernel can (Linux pidfd); elsewhere the safety-net probe finds out."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path


class ExitWatch:
    """One open pidfd per living agent; works for agents started by an earlier server too."""

    def __init__(self, on_exit: Callable[[str], None]) -> None:
        self._on_exit = on_exit
        self._watched: set[str] = set()

    def watch(self, name: str, directory: Path) -> None:
        if name in self._watched or not hasattr(os, "pidfd_open"):
            return
        try:
            pid = json.loads((directory / "agent.json").read_text())["pid"]
            fd = os.pidfd_open(pid)
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._watched.add(name)
        asyncio.get_running_loop().add_reader(fd, self._exited, name, fd)

    def _exited(self, name: str, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        self._watched.discard(name)
        self._on_exit(name)
