"""Log metrics to Weights & Biases, to a `project` or `entity/project`; without an API key, to local files."""

from __future__ import annotations

import netrc
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anygpu.trainers.trackers.tracking import FINISHED, STOPPED, TrackedPoint, TrackedRun

OFFLINE = "offline"


class Wandb:
    """Weights & Biases tracker.

    A resumed training continues the run that has its key. Weights & Biases ignores steps it already has.
    """

    name = "wandb"

    def __init__(self, project: str, run: TrackedRun) -> None:
        import wandb

        self._wandb, self._run = wandb, run
        entity, _, name = project.rpartition("/")
        self._entity, self._project = entity or None, name or os.environ.get("WANDB_PROJECT") or "anygpu"
        self._live: Any = None

    def start(self) -> None:
        run = self._run
        self._live = self._wandb.init(
            entity=self._entity,
            project=self._project,
            id=run.key,
            resume="allow",
            name=run.name,
            tags=list(run.tags),
            config={"trainer": run.trainer, **run.settings},
            dir=str(run.output),
            mode=os.environ.get("WANDB_MODE") or ("online" if _has_key() else OFFLINE),
            settings=self._wandb.Settings(console="off", silent=True, disable_git=True),
        )

    def log(self, points: Sequence[TrackedPoint]) -> None:
        for point in points:
            self._live.log(dict(point.metrics), step=point.step)

    def end(self, status: str) -> None:
        self._live.finish(exit_code=0 if status in (FINISHED, STOPPED) else 1)

    def files(self) -> Sequence[Path]:
        return ()


def _has_key() -> bool:
    """Return whether an API key is configured. Without one, `init` would prompt for it."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (OSError, netrc.NetrcParseError):
        return False
