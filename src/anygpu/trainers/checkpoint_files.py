"""Copy checkpoints, and replace one so that a complete one exists at any moment."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy a file or a directory. A directory at `target` is replaced."""
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def replace_checkpoint(draft: Path, last: Path, previous: Path) -> None:
    """Replace the checkpoint `last` by `draft`. At any moment, `last` or `previous` is a complete checkpoint."""
    if last.exists():  # if not, a kill came between the two renames, and only `previous` is left
        shutil.rmtree(previous, ignore_errors=True)
        last.rename(previous)
    draft.rename(last)
    shutil.rmtree(previous, ignore_errors=True)
