"""Export the trained model as ONNX, or as a safetensors folder for `from_pretrained`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers import onnx_check
from anygpu.trainers.errors import BadExport
from anygpu.trainers.result import Export

OPSET = 17
TOLERANCE = 1e-4
AXES = {"input_ids": {0: "batch", 1: "tokens"}, "attention_mask": {0: "batch", 1: "tokens"}}


class _Logits(torch.nn.Module):  # type: ignore[misc]  # torch is not installed when types are checked
    """Wraps a model so that it takes positional inputs and returns only the logits."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Any) -> Any:
        extra = {"use_cache": False} if hasattr(self.model.config, "use_cache") else {}
        return self.model(**dict(zip(self.names, inputs, strict=True)), **extra).logits


def to_onnx(model: Any, batch: Mapping[str, Any], path: Path) -> Export:
    """Export a model as ONNX with dynamic batch size and text length; check that its outputs are the same."""
    network = _float32_copy(model)
    names = list(batch)
    wrapped = _Logits(network, names).eval()
    axes = {name: AXES.get(name, {0: "batch"}) for name in names}
    with warnings.catch_warnings(), torch.no_grad():
        # The tracer warns about values it treats as constants. The comparison below detects real errors.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            wrapped,
            tuple(batch.values()),
            str(path),
            input_names=names,
            output_names=["logits"],
            dynamic_axes={**axes, "logits": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
        )
    other = {name: _another(value, axes[name]) for name, value in batch.items()}
    with torch.no_grad():
        expected = wrapped(*other.values()).numpy()
    return onnx_check.compare_with_model(
        path, {name: value.numpy() for name, value in other.items()}, [expected], tolerance=TOLERANCE
    )


def _another(value: Any, axes: Mapping[int, str]) -> Any:
    """Return another input with one more sample and one token less, to test that the exported sizes are not fixed."""
    larger = torch.cat([value, value[:1]])
    return larger[:, :-1] if 1 in axes and larger.shape[1] > 1 else larger


def _float32_copy(model: Any) -> Any:
    """Return a float32 copy on the CPU with eager attention, which every ONNX runtime supports."""
    network = copy.deepcopy(model).cpu().float().eval()
    if hasattr(network, "set_attn_implementation"):
        network.set_attn_implementation("eager")
    return network


def to_safetensors(model: Any, tokenizer: Any, directory: Path) -> Export:
    """Write a folder that `from_pretrained` loads; check that it loads identical weights."""
    save(model, tokenizer, directory)
    again = type(model).from_pretrained(str(directory)).state_dict()
    difference = max(
        float((again[name].double() - tensor.cpu().double()).abs().max()) if tensor.numel() else 0.0
        for name, tensor in model.state_dict().items()
    )
    if difference:
        raise BadExport(
            f"{directory.name}: the weights in the exported files differ from the trained ones by "
            f"{difference:.3g}. The trained model is in the checkpoint; report this as a bug"
        )
    return Export(format="safetensors", path=directory, difference=0.0, tolerance=0.0)


def save(model: Any, tokenizer: Any, directory: Path) -> None:
    model.save_pretrained(str(directory))
    if tokenizer is not None:
        tokenizer.save_pretrained(str(directory))
