"""A context that tells trackers what it tells anygpu."""

from __future__ import annotations

import atexit
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from anygpu import job
from anygpu.trainers.context import At, Context
from anygpu.trainers.trackers.run import STOPPED, Point
from anygpu.trainers.trackers.sending import Sender

UNTOLD = "untold-points.json"  # in a checkpoint: no curve has a hole where a training was killed
MOST_KEPT = 2_000


class Tracked:
    """Everything goes to the context; numbers go to the trackers too, and their files along with each checkpoint."""

    def __init__(self, context: Context, senders: Sequence[Sender]) -> None:
        self._context = context
        self._senders = senders
        untold = _kept(context.restore())
        for sender in senders:
            sender.start(untold.get(sender.tracker.name, ()))
        atexit.register(self.end, STOPPED)  # for who never calls it

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        self._context.report(metrics, at)
        if metrics:
            point = Point({**metrics, **({} if at.epoch is None else {"epoch": float(at.epoch)})}, at.step)
            for sender in self._senders:
                sender.put(point)

    def add_to(self, draft: Path) -> None:
        _keep(draft, {sender.tracker.name: sender.untold()[-MOST_KEPT:] for sender in self._senders})

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


def _keep(checkpoint: Path, untold: Mapping[str, Sequence[Point]]) -> None:
    points = {
        name: [[each.step, each.at_s, dict(each.metrics)] for each in some] for name, some in untold.items()
    }
    (checkpoint / UNTOLD).write_text(json.dumps(points))


def _kept(checkpoint: Path | None) -> dict[str, list[Point]]:
    if checkpoint is None or not (checkpoint / UNTOLD).exists():
        return {}
    found = json.loads((checkpoint / UNTOLD).read_text())
    return {
        name: [Point(metrics, step, at_s) for step, at_s, metrics in some] for name, some in found.items()
    }
