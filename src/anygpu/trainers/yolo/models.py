"""Convert the names of YOLO models and tasks that users write to the names that ultralytics uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anygpu.suggest import did_you_mean
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
# generation -> (ultralytics' name stem, sizes, supported tasks)
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
    """A model and its task. `start` is a .yaml (train from scratch) or a .pt file (start from weights)."""

    name: str
    task: str
    start: str


def choose_model(model: str, weights: str, task: str) -> YoloModel:
    """Return the model that the three settings select; raise BadConfig if they contradict each other."""
    wanted = TASKS[task] if task else ""
    if Path(model).suffix in (".yaml", ".yml", ".pt") and Path(model).is_file():
        return YoloModel(Path(model).stem, wanted or _task_of_file(model), weights or model)
    name, named = normalize_name(model or DEFAULT)
    if named and wanted and named != wanted:
        raise BadConfig(
            f"model: {model!r} is a model for {named!r}, but task is {wanted!r}; change one of them"
        )
    kind = named or wanted or "detect"
    full = f"{name}{SUFFIXES[kind]}"
    _check_there_is_one(name, kind)
    return YoloModel(full, kind, weights or (f"{full}.pt" if model.endswith(".pt") else f"{full}.yaml"))


def normalize_name(spelled: str) -> tuple[str, str]:
    """Split `yolov11n-seg.pt` into ("yolo11n", "segment"). The task is empty if the name has none."""
    match = SPELLED.match(re.sub(r"\.(pt|yaml|yml)$", "", spelled.strip().lower()))
    family = FAMILIES.get(int(match.group(1))) if match else None
    if match is None or family is None:
        raise BadConfig(f"model: there is no model {spelled!r}{_hint(spelled)}")
    stem, sizes, _ = family
    size = match.group(2) or sizes[0]
    if size not in sizes:
        raise BadConfig(f"model: {stem} has no size {size!r}; its sizes are {', '.join(sizes)}")
    ending = match.group(3)
    named = {"seg": "segment", "cls": "classify", "pose": "pose", "det": "detect"}[ending] if ending else ""
    return stem + size, named


def model_names() -> list[str]:
    """Return the full names of all supported models."""
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
        raise BadConfig(f"model: {name} has no version for {task!r}{_hint(full)}")


def _hint(spelled: str) -> str:
    hint = did_you_mean(spelled.lower().removesuffix(".pt").removesuffix(".yaml"), model_names())
    return f"; {hint}" if hint else f"; there are {', '.join(model_names())}"


def _task_of_file(path: str) -> str:
    stem = Path(path).stem
    return next((task for task, suffix in SUFFIXES.items() if suffix and suffix in stem), "detect")
