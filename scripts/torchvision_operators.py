"""Gives torchvision the compiled operators its import needs, where its own do not fit the installed torch.

torchvision's wheels are built for torch with CUDA; beside the CPU build they lack `torchvision::nms` and cannot even be
imported. Copied into the test environment by setup_trainers_venv.py and loaded at every start of its Python, so that
data loaders and killed trainings have it too. It does nothing until torchvision is imported.
"""

import importlib.abc
import importlib.machinery
import sys
from pathlib import Path
from typing import Any


class WithOperators(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        missing = not loads(Path(module.__file__).parent)
        if missing:
            define_nms()
        self._loader.exec_module(module)
        if missing:
            module.extension._has_ops = lambda: True


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "torchvision":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None:
            spec.loader = WithOperators(spec.loader)
        return spec


def loads(package: Path) -> bool:
    import torch

    try:
        for library in package.glob("_C*.so"):
            torch.ops.load_library(str(library))
        return hasattr(torch.ops.torchvision, "nms")
    except OSError:
        return False


def define_nms() -> None:
    import torch

    for name in ("nms", "qnms"):  # of plain numbers, and of quantised ones
        operator = f"torchvision::{name}"
        torch.library.define(operator, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.library.impl(operator, "CPU", nms)


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Keep the best box, drop what overlaps it, and so on."""
    import torch

    order = scores.argsort(descending=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while order.numel():
        best, order = order[0], order[1:]
        kept.append(best)
        corner = torch.maximum(boxes[best, :2], boxes[order, :2])
        opposite = torch.minimum(boxes[best, 2:], boxes[order, 2:])
        shared = (opposite - corner).clamp(min=0).prod(dim=1)
        order = order[shared / (areas[best] + areas[order] - shared) <= iou_threshold]
    return torch.stack(kept) if kept else torch.empty(0, dtype=torch.int64)


sys.meta_path.insert(0, Finder())
