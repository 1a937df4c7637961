"""Spellings of YOLO models and tasks, and their names in ultralytics."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anygpu.trainers.errors import BadConfig

TASKS: Mapping[str, str] = {
    "detect": "detect",
    "detection": "detect",
    "object-detection": "detect",
    "segment": "segment",
    "segmentation": "segment",
    "instance-segmentation": "segment",
    "classify": "classify",
    "classification": "classify",
    "image-classification": "classify",
    "pose": "pose",
    "pose-estimation": "pose",
    "keypoint-detection": "pose",
}
SUFFIXES = {"detect": "", "segment": "-seg", "classify": "-cls", "pose": "-pose"}
ALL, BOXES = tuple(SUFFIXES), ("detect",)
# The stem ultralytics gives each generation, its sizes, and the tasks it has a model for.
FAMILIES: Mapping[int, tuple[str, str, tuple[str, ...]]] = {
    8: ("yolov8", "nsmlx", ALL),
    9: ("yolov9", "tsmce", ("detect", "segment")),
    10: ("yolov10", "nsmblx", BOXES),
    11: ("yolo11", "nsmlx", ALL),
    12: ("yolo12", "nsmlx", ALL),
    26: ("yolo26", "nsmlx", ALL),
}
DEFAULT = "yolo11n"
SPELLED = re.compile(r"yolo[-_ ]?v?[-_ ]?(\d+)[-_ ]?([a-z])?(?:[-_](seg|cls|pose|det))?$")


@dataclass(frozen=True)
class YoloModel:
    """`start` is what ultralytics is given: a yaml (from scratch) or a .pt (weights)."""

    name: str
    task: str
    start: str


def choose_model(model: str, weights: str, task: str) -> YoloModel:
    """What the three settings mean together; BadConfig where they contradict each other."""
    wanted = TASKS[task] if task else ""
    if Path(model).suffix in (".yaml", ".yml", ".pt") and Path(model).is_file():
        return YoloModel(Path(model).stem, wanted or _task_of_file(model), weights or model)
    name, named = normalize_name(model or DEFAULT)
    if named and wanted and named != wanted:
        raise BadConfig(f"model: {model!r} is made for {named!r}, but task says {wanted!r}")
    kind = named or wanted or "detect"
    full = f"{name}{SUFFIXES[kind]}"
    _check_there_is_one(name, kind)
    return YoloModel(full, kind, weights or (f"{full}.pt" if model.endswith(".pt") else f"{full}.yaml"))


def normalize_name(spelled: str) -> tuple[str, str]:
    """`yolov11n-seg.pt` is ("yolo11n", "segment"); the task is empty when the name does not say it."""
    match = SPELLED.match(re.sub(r"\.(pt|yaml|yml)$", "", spelled.strip().lower()))
    family = FAMILIES.get(int(match.group(1))) if match else None
    if match is None or family is None:
        raise BadConfig(f"model: there is no {spelled!r}{_nearest(spelled)}")
    stem, sizes, _ = family
    size = match.group(2) or sizes[0]
    if size not in sizes:
        raise BadConfig(f"model: {stem} has the sizes {', '.join(sizes)}, not {size!r}")
    ending = match.group(3)
    named = {"seg": "segment", "cls": "classify", "pose": "pose", "det": "detect"}[ending] if ending else ""
    return stem + size, named


def model_names() -> list[str]:
    """Every model there is, by its full name."""
    return [
        f"{stem}{size}{SUFFIXES[task]}"
        for stem, sizes, tasks in FAMILIES.values()
        for size in sizes
        for task in tasks
        if _has(stem, size, task)
    ]


def _has(stem: str, size: str, task: str) -> bool:
    return not (stem == "yolov9" and task == "segment") or size in "ce"


def _check_there_is_one(name: str, task: str) -> None:
    full = f"{name}{SUFFIXES[task]}"
    if full not in model_names():
        raise BadConfig(f"model: {name} has no version for {task!r}{_nearest(full)}")


def _nearest(spelled: str) -> str:
    close = difflib.get_close_matches(
        spelled.lower().removesuffix(".pt").removesuffix(".yaml"), model_names(), n=1
    )
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(model_names())}"


def _task_of_file(path: str) -> str:
    stem = Path(path).stem
    return next((task for task, suffix in SUFFIXES.items() if suffix and suffix in stem), "detect")
