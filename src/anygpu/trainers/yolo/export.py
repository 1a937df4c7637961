"""Save YOLO weights, and export models and compare each with the trained model on the same image."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

from anygpu.trainers import onnx_check
from anygpu.trainers.errors import BadExport
from anygpu.trainers.result import Export

LICENCE = "AGPL-3.0 (https://ultralytics.com/license)"


def save(engine: Any, path: Path, held: Any = None) -> Path:
    """Save the averaged weights in half precision, in the format of ultralytics' best.pt.

    `held`: an earlier copy of the averaged weights, to save instead of the current ones.
    """
    import torch
    from ultralytics import __version__

    model = deepcopy(engine.ema.ema)
    if held is not None:
        model.load_state_dict(held)
    model.criterion = None
    model.args = _portable(vars(engine.args))
    draft = path.with_suffix(".draft")
    kept = {"model": model.half(), "ema": None, "epoch": -1, "version": __version__, "license": LICENCE}
    torch.save({**kept, "train_args": _portable(vars(engine.args))}, draft)
    draft.replace(path)
    return path


def _portable(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the training arguments without the paths and the device of this machine."""
    own = ("data", "project", "save_dir", "model", "name", "device")
    return {name: value for name, value in arguments.items() if name not in own}


# Boxes are in pixels, so the allowed difference grows with the image size: 0.32 pixels for 640.
TOLERANCE_PER_PIXEL = 1e-3 / 2


def export(weights: Path, format: str, directory: Path, image_size: int) -> Export:
    import torch
    from ultralytics import YOLO

    plain = {"simplify": False} if format == "onnx" else {}  # simplifying needs another package
    made = Path(YOLO(str(weights)).export(format=format, imgsz=image_size, device="cpu", **plain))
    path = directory / f"{weights.stem}{made.suffix}"
    if made != path:
        shutil.move(str(made), path)
    image = torch.rand(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0))
    expected = _outputs(weights, image)
    tolerance = max(1.0, image_size) * TOLERANCE_PER_PIXEL
    if format == "onnx":
        return onnx_check.compare_with_model(path, {"images": image.numpy()}, expected, tolerance=tolerance)
    return _checked_script(path, image, expected, tolerance)


def _outputs(weights: Path, image: Any) -> list[Any]:
    import torch
    from ultralytics.nn.tasks import load_checkpoint

    model, _ = load_checkpoint(str(weights), fuse=True)
    with torch.no_grad():
        return [_first(model(image)).numpy()]


def _first(answer: Any) -> Any:
    """Return the predictions, the first element of a model's nested output. The others are for the loss."""
    while isinstance(answer, (list, tuple)):
        answer = answer[0]
    return answer


def _checked_script(path: Path, image: Any, expected: list[Any], tolerance: float) -> Export:
    import numpy
    import torch

    with torch.no_grad():
        got = _first(torch.jit.load(str(path))(image)).numpy()
    difference = float(numpy.abs(got - expected[0]).max()) if got.shape == expected[0].shape else float("inf")
    if not difference <= tolerance:
        raise BadExport(
            f"{path.name}: an output of the exported model differs from the trained model's by "
            f"{difference:.3g}; at most {tolerance:.3g} is allowed. Set `export` to another format"
        )
    shape = tuple(image.shape)
    return Export(
        format="torchscript", path=path, inputs={"images": shape}, difference=difference, tolerance=tolerance
    )
