"""Keep ultralytics inside the output directory: no settings in the home folder, no telemetry, no installs.

It also sees none of the other processes of a training on several GPUs.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from anygpu.trainers.errors import TrainerError

FONTS = ("Arial.ttf", "Arial.Unicode.ttf")


def isolate(directory: Path) -> None:
    """Configure ultralytics to keep its settings in `directory`, print only warnings and send nothing.

    Call this before the first import of ultralytics: afterwards its settings directory cannot be changed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("YOLO_CONFIG_DIR", str(directory.resolve()))
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    os.environ.setdefault("YOLO_VERBOSE", "false")
    _import_alone()
    _silence()
    _give_fonts()


def _import_alone() -> None:
    """Import ultralytics without the variable that says how many processes train together.

    It would read it now, and later divide batches and validate in its own way, which needs CUDA. See `sharing`.
    """
    size = os.environ.pop("WORLD_SIZE", None)
    try:
        from ultralytics.utils import RANK
    finally:
        if size is not None:
            os.environ["WORLD_SIZE"] = size
    if RANK != -1:
        raise TrainerError(
            "ultralytics was imported before the training started, and would now divide the batches in its own way; "
            "import it later"
        )


def _silence() -> None:
    from ultralytics.utils import LOGGER, SETTINGS

    for name in (
        "sync",
        "hub",
        "clearml",
        "comet",
        "dvc",
        "mlflow",
        "neptune",
        "raytune",
        "tensorboard",
        "wandb",
    ):
        if name in SETTINGS:
            dict.__setitem__(SETTINGS, name, False)  # in memory only; the user's file does not change
    from ultralytics.utils.events import events

    events.enabled = False
    LOGGER.handlers[:] = [ToStderr()]
    LOGGER.setLevel(logging.WARNING)


class ToStderr(logging.StreamHandler):  # type: ignore[type-arg]
    """Log handler that writes to stderr, because stdout carries progress lines.

    It looks up `sys.stderr` each time, because notebooks replace it.
    """

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        return


def _give_fonts() -> None:
    """Copy a font of matplotlib to the file names that ultralytics looks for, so that it does not download fonts."""
    import matplotlib
    from ultralytics.utils import USER_CONFIG_DIR

    own = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    for name in FONTS:
        if own.is_file() and not (USER_CONFIG_DIR / name).exists():
            shutil.copyfile(own, USER_CONFIG_DIR / name)
