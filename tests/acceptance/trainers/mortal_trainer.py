"""Trainers of a project's own: one that is killed in its first attempt, and one that at first takes its time."""

import os
import signal
import time
from collections.abc import Mapping

from anygpu.trainers.tabular.trainer import Tabular

DIES_AT = 7


class Mortal(Tabular):
    def step_done(self, metrics: Mapping[str, float], *, steps_per_epoch: int | None = None) -> None:
        super().step_done(metrics, steps_per_epoch=steps_per_epoch)
        if os.environ.get("ANYGPU_ATTEMPT") == "1" and self.progress.step == DIES_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    def checkpoint(self, *, wait: bool = False) -> None:
        super().checkpoint(wait=True)


class Slow(Tabular):
    def step_done(self, metrics: Mapping[str, float], *, steps_per_epoch: int | None = None) -> None:
        if not os.environ.get("ANYGPU_RESUME_PATH"):
            time.sleep(0.2)
        super().step_done(metrics, steps_per_epoch=steps_per_epoch)
