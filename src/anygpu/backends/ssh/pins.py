"""Host keys seen once and expected ever after."""

import contextlib
import os
import re
from pathlib import Path


class Pins:
    """One small file per machine. The first key kept under a name stays, whoever else wants to keep another."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def known(self, name: str) -> tuple[str, ...]:
        try:
            return tuple(self._path(name).read_text().splitlines())
        except FileNotFoundError:
            return ()

    def keep(self, name: str, key: str) -> tuple[str, ...]:
        """What is expected of this machine from now on: `key`, unless another was kept first."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f".{os.getpid()}-{id(self)}.tmp"
        draft.write_text(f"{key}\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, self._path(name))  # whole or not at all, and never over another's
        draft.unlink()
        return self.known(name)

    def forget(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{re.sub(r'[^A-Za-z0-9.-]', '_', name)}.pub"
