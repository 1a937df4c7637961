"""Generate the script for the yolo trainer, which uses ultralytics directly."""

from __future__ import annotations

from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.scripts.templates import PROGRESS, fill
from anygpu.trainers.yolo import models

TEMPLATE = '''\
"""Trains {MODEL!t} ({TASK!t}) with ultralytics (AGPL-3.0). Needs: pip install ultralytics onnx

    python train.py [dataset]       a dataset's folder (with its data.yaml), or its data.yaml
    python train.py --resume        continues from the last epoch that was saved
"""

import json
import sys
from pathlib import Path

from ultralytics import YOLO

WORDS = [word for word in sys.argv[1:] if word != "--resume"]
DATASET = Path(WORDS[0] if WORDS else {DATASET})
START = {START}  # a .yaml starts from scratch, a .pt from its weights
SETTINGS = {SETTINGS}
EXPORTS = {EXPORTS}
RUN = Path("runs")
LAST = RUN / "train" / "weights" / "last.pt"


{PROGRESS!t}

def tell(trainer):
    """Print the metrics after the validation of each epoch."""
    if trainer.epoch >= trainer.epochs:
        return  # called once more at the end, for the best weights
    numbers = {{name: float(value) for name, value in trainer.metrics.items()}}
    progress(epoch=trainer.epoch + 1, total_epochs=trainer.epochs, **numbers)


def main():
    resume = "--resume" in sys.argv[1:] and LAST.is_file()
    model = YOLO(str(LAST) if resume else START)
    model.add_callback("on_fit_epoch_end", tell)
    data = DATASET / "data.yaml" if (DATASET / "data.yaml").is_file() else DATASET
    if resume:
        model.train(resume=True)
    else:
        model.train(
            data=str(data), project=str(RUN.resolve()), name="train", exist_ok=True, plots=False, **SETTINGS
        )
    best = YOLO(RUN / "train" / "weights" / "best.pt")
    for format in EXPORTS:
        best.export(format=format, imgsz=SETTINGS["imgsz"])


if __name__ == "__main__":
    main()
'''


def write_script(config: TrainingConfig, dataset: str) -> str:
    model = models.choose_model(config.model, config.weights, config.task)
    return fill(
        TEMPLATE,
        MODEL=model.name,
        TASK=model.task,
        START=model.start,
        DATASET=dataset or "dataset",
        SETTINGS=_settings(config, model.task),
        EXPORTS=list(config.export),
        PROGRESS=PROGRESS,
    )


def _settings(config: TrainingConfig, task: str) -> dict[str, Any]:
    """Return the settings under the names ultralytics uses."""
    settings: dict[str, Any] = {
        "epochs": config.epochs,
        "batch": config.batch_size,
        "imgsz": config.image_size or (224 if task == "classify" else 640),
        "seed": config.seed,
        "workers": config.workers,
        "amp": config.amp,
    }
    given = {
        "lr0": config.learning_rate,
        "optimizer": config.optimizer,
        "patience": config.patience,
        "cos_lr": config.scheduler == "cosine",
        "device": "" if config.device == "auto" else config.device,
    }
    return settings | {name: value for name, value in given.items() if value} | dict(config.options)
