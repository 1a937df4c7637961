"""Keep a copy of a plugin's last checkpoint in a directory where the plugin does not overwrite it."""

from __future__ import annotations

import shutil
from pathlib import Path

from anygpu.trainers.checkpoint_files import copy_checkpoint
from anygpu.trainers.errors import TrainerError


class PluginCheckpoint:
    """Copy of the last checkpoint that a plugin reported, with the epoch after which it was saved."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.path: Path | None = None
        self.epoch: int | None = None

    def take(self, path: Path, epoch: int) -> None:
        if not path.exists():
            raise TrainerError(
                f"the plugin reported a checkpoint at {path} (in {Path.cwd()}), which does not exist;"
                " call on_checkpoint_save after writing the file"
            )
        self._put(path, epoch)

    def bring_back(self, directory: Path, epoch: int | None) -> None:
        saved = next(directory.iterdir(), None) if directory.is_dir() else None
        if saved is not None:
            self._put(saved, epoch)

    def follows(self, epoch: int) -> bool:
        """Return whether the last checkpoint was saved in the epoch just before `epoch`.

        If so, the plugin probably saves after every epoch and will report its checkpoint of `epoch` soon.
        """
        return self.epoch == epoch - 1

    def copy_to(self, directory: Path) -> None:
        if self.path is not None:
            directory.mkdir()
            copy_checkpoint(self.path, directory / self.path.name)

    def copy_as(self, directory: Path, stem: str) -> Path | None:
        if self.path is None:
            return None
        target = directory / f"{stem}{self.path.suffix}"
        copy_checkpoint(self.path, target)
        return target

    def _put(self, source: Path, epoch: int | None) -> None:
        target = self._directory / source.name
        if source.resolve() != target.resolve():
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir(parents=True)
            copy_checkpoint(source, target)
        self.path, self.epoch = target, epoch
