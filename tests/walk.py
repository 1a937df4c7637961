"""Files below a directory that a running program changes meanwhile."""

import os
from pathlib import Path


def paths_below(folder: Path) -> list[Path]:
    """Return all files and directories. `Path.rglob` fails if a directory is removed while it is listed."""
    return [Path(root, name) for root, folders, files in os.walk(folder) for name in (*folders, *files)]


def content_of(path: Path) -> bytes:
    """Return the content of a file; nothing if it is no file, or no longer there."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return b""
