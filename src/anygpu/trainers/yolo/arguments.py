"""Ultralytics' train arguments: all of them are passed through by their own names.

The names are those of ultralytics 8.4.190 (its cfg/default.yaml), kept here so that a mistake is found where
ultralytics is not installed. Left out: where its files go and when it saves (the contract does), `time` (a job has a
deadline), `distill_model` and `quantize` (they could not be resumed), and what only predicting and exporting have.
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
# One name for these in every trainer; ultralytics' own spellings are accepted (batch, imgsz, lr0).
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


def overrides(config: TrainingConfig, *, model: str, task: str, data: Path, home: Path) -> dict[str, Any]:
    """What ultralytics is told. Patience, weights and resuming are the contract's, the same for every trainer."""
    told = {theirs: getattr(config, ours) for ours, theirs in OURS.items()}
    given = {name: value for name, value in told.items() if value is not None}
    where = {"model": model, "task": task, "data": str(data), "project": str(home), "name": "run"}
    quiet = {"plots": False, "verbose": False, "patience": 0, "exist_ok": True, "mode": "train"}
    return {**quiet, **given, **where, **_model_arguments(config), **_device(config), **config.options}


def _model_arguments(config: TrainingConfig) -> dict[str, Any]:
    optimizer = {"optimizer": config.optimizer} if config.optimizer else {}
    scheduler = {"cos_lr": config.scheduler == "cosine"} if config.scheduler else {}
    # With "auto" ultralytics would pass over the learning rate that was asked for.
    if config.learning_rate is not None and not config.optimizer:
        optimizer = {"optimizer": "SGD"}
    return {**optimizer, **scheduler}


def _device(config: TrainingConfig) -> Mapping[str, Any]:
    return {} if config.device == "auto" else {"device": config.device}
