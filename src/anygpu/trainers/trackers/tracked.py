"""A context that tells trackers what it tells anygpu."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path

from anygpu import job
from anygpu.trainers.context import Context
from anygpu.trainers.trackers.run import STOPPED, Point
from anygpu.trainers.trackers.sending import Sender


class Tracked:
    """Everything goes to the context; numbers go to the trackers too, and their files along with each checkpoint."""

    def __init__(self, context: Context, senders: Sequence[Sender]) -> None:
        self._context = context
        self._senders = senders
        atexit.register(self.end, STOPPED)  # for who never calls it

    def report(
        self,
        metrics: Mapping[str, float],
        *,
        step: int,
        steps: int | None = None,
        epoch: int | None = None,
        epochs: int | None = None,
    ) -> None:
        self._context.report(metrics, step=step, steps=steps, epoch=epoch, epochs=epochs)
        if metrics:
            point = Point({**metrics, **({} if epoch is None else {"epoch": float(epoch)})}, step)
            for sender in self._senders:
                sender.put(point)

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        self._context.checkpoint(path, step=step, wait=wait)
        self._keep_files()

    def restore(self) -> Path | None:
        return self._context.restore()

    def should_stop(self) -> bool:
        return self._context.should_stop()

    def workplace(self, output_dir: Path) -> Path:
        return self._context.workplace(output_dir)

    def best(self, path: Path) -> None:
        self._context.best(path)

    def artifact(self, path: Path) -> None:
        self._context.artifact(path)

    def end(self, status: str) -> None:
        """Training has ended: finished, failed, or stopped to go on later. Twice is the same as once."""
        atexit.unregister(self.end)
        for sender in self._senders:
            sender.close(status)
        self._keep_files()
        self._senders = ()

    def _keep_files(self) -> None:
        for sender in self._senders:
            for path in sender.files():
                job.artifact(path, name=f"{sender.tracker.name}/{path.name}")
