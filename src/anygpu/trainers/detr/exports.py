"""Export detectors as ONNX or safetensors, and compare each export with the model on the same images."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers import onnx_check
from anygpu.trainers.errors import BadExport
from anygpu.trainers.result import Export
from anygpu.trainers.torch import exports

# The model selects the queries with the highest scores. When two scores are nearly equal, another runtime may
# select differently. So outputs either differ in the last digits only, or completely.
TOLERANCE = 1e-3
OPSET = 17
OUTPUTS = ["logits", "boxes"]
Answer = Callable[[Any, Any], tuple[Any, Any]]


class DetectionOutputs(torch.nn.Module):  # type: ignore[misc]
    """Module that takes images with values from 0 to 1 and returns logits and boxes (centre and size, 0 to 1)."""

    def __init__(self, network: Any, answer: Answer) -> None:
        super().__init__()
        self.network, self._answer = network, answer

    def forward(self, images: Any) -> tuple[Any, Any]:
        return self._answer(self.network, images)


def to_onnx(module: Any, images: Any, path: Path) -> Export:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer warns about constant sizes, which are intended
        expected = [each.numpy() for each in module(images)]
        torch.onnx.export(
            module,
            (images,),
            str(path),
            input_names=["images"],
            output_names=OUTPUTS,
            opset_version=OPSET,
            dynamo=False,
        )
    return onnx_check.compare_with_model(path, {"images": images.numpy()}, expected, tolerance=TOLERANCE)


def to_safetensors(network: Any, answer: Answer, images: Any, path: Path, about: Mapping[str, str]) -> Export:
    """Export the weights as safetensors; raise BadExport if the file does not give the same outputs.

    To check the file, it is loaded into a copy of the network whose weights are all zero.
    """
    exports.save_weights(network, path, about)
    fresh = copy.deepcopy(network)
    with torch.no_grad():
        for each in fresh.parameters():
            each.zero_()
        exports.load_weights(fresh, path)
        pairs = zip(answer(fresh, images), answer(network, images), strict=True)
        difference = max(float((got - wanted).abs().max()) for got, wanted in pairs)
    if not difference <= TOLERANCE:
        raise BadExport(
            f"{path.name}: an output of the exported model differs from the trained model's by "
            f"{difference:.3g}; at most {TOLERANCE:.3g} is allowed. Set `export` to another format"
        )
    shapes = {"images": ("batch", *images.shape[1:])}
    return Export(format="safetensors", path=path, inputs=shapes, difference=difference, tolerance=TOLERANCE)
