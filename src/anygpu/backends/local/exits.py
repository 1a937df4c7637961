"""Report the exit of an agent at once, by a Linux pidfd. On other systems the periodic probe finds out."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path


class ExitWatcher:
    """Watches one pidfd per running agent, including agents that an earlier server started."""

    def __init__(self, on_exit: Callable[[str], None]) -> None:
        self._on_exit = on_exit
        self._pidfds: dict[str, int] = {}

    def watch(self, name: str, directory: Path) -> None:
        if name in self._pidfds or not hasattr(os, "pidfd_open"):
            return
        try:
            pid = json.loads((directory / "agent.json").read_text())["pid"]
            fd = os.pidfd_open(pid)
        except (OSError, ValueError, KeyError, TypeError):
            return
        self._pidfds[name] = fd
        asyncio.get_running_loop().add_reader(fd, self._handle_exit, name)

    def close(self) -> None:
        for name in [*self._pidfds]:
            self._unwatch(name)

    def _handle_exit(self, name: str) -> None:
        self._unwatch(name)
        self._on_exit(name)

    def _unwatch(self, name: str) -> None:
        fd = self._pidfds.pop(name)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
