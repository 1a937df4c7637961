"""Translate settings to ultralytics' train arguments. Options named like an argument are passed unchanged.

The names are from ultralytics 8.4.190 (cfg/default.yaml). They are listed here so that settings can be
checked where ultralytics is not installed. These arguments are not accepted: output paths and saving (anygpu
saves checkpoints), `time` (jobs have deadlines), `distill_model` and `quantize` (they cannot be resumed), and
arguments that apply only to prediction or export.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig

TAKEN_FROM = "8.4.190"
TRAINING = """
    cache single_cls rect cos_lr close_mosaic fraction profile freeze multi_scale compile channels_last
    pretrained cls_remap deterministic verbose plots val split
    overlap_mask mask_ratio dropout conf iou max_det save_json nms classes
"""
HYPERPARAMETERS = """
    lrf momentum weight_decay warmup_epochs warmup_momentum warmup_bias_lr box cls cls_pw dfl pose kobj rle nbs
"""
AUGMENTATION = """
    hsv_h hsv_s hsv_v degrees translate scale shear perspective flipud fliplr bgr mosaic mixup cutmix copy_paste
    copy_paste_mode auto_augment erasing
"""
NAMES = frozenset(f"{TRAINING} {HYPERPARAMETERS} {AUGMENTATION}".split())
# anygpu's setting -> ultralytics' argument. Ultralytics' names (batch, imgsz, lr0) are accepted too.
OURS = {
    "batch_size": "batch",
    "image_size": "imgsz",
    "learning_rate": "lr0",
    "amp": "amp",
    "workers": "workers",
    "seed": "seed",
    "epochs": "epochs",
}
OPTIMIZERS = ("auto", "SGD", "MuSGD", "Adam", "Adamax", "AdamW", "NAdam", "RAdam", "RMSProp")
SCHEDULERS = ("linear", "cosine")


def overrides(
    config: TrainingConfig, *, model: str, task: str, data: Path, home: Path, rank: int = 0
) -> dict[str, Any]:
    """Return the arguments for ultralytics' trainer.

    Ultralytics' early stopping is disabled because anygpu stops trainings itself. Each rank has a directory of its own
    for the files that ultralytics writes; only rank 0 plots.
    """
    settings = {theirs: getattr(config, ours) for ours, theirs in OURS.items()}
    given = {name: value for name, value in settings.items() if value is not None}
    where = {"model": model, "task": task, "data": str(data), "project": str(home), "name": "run"}
    quiet = {"plots": False, "verbose": False, "patience": 0, "exist_ok": True, "mode": "train"}
    other = {"name": f"rank{rank}", "plots": False} if rank else {}
    return {
        **quiet,
        **given,
        **where,
        **_model_arguments(config),
        **_device(config),
        **config.options,
        **other,
    }


def _model_arguments(config: TrainingConfig) -> dict[str, Any]:
    optimizer = {"optimizer": config.optimizer} if config.optimizer else {}
    scheduler = {"cos_lr": config.scheduler == "cosine"} if config.scheduler else {}
    # With the optimizer "auto", ultralytics ignores the given learning rate.
    if config.learning_rate is not None and not config.optimizer:
        optimizer = {"optimizer": "SGD"}
    return {**optimizer, **scheduler}


def _device(config: TrainingConfig) -> Mapping[str, Any]:
    return {} if config.device == "auto" else {"device": config.device}
