"""Export models as safetensors, ONNX or TorchScript, and compare each export with the original model."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from anygpu.trainers import onnx_check
from anygpu.trainers.errors import BadExport
from anygpu.trainers.result import Export

TOLERANCE = 1e-4
OPSET = 17


def save_weights(model: Any, path: Path, about: Mapping[str, str]) -> Path:
    """Write a model's weights to a safetensors file atomically, with the metadata `about` in its header.

    The same weights always give the same bytes.
    """
    from safetensors.torch import save_file

    draft = path.with_name(f".{path.name}.draft")
    # safetensors writes header entries in no fixed order, so put everything into a single entry.
    save_file(_each_once(model.state_dict()), str(draft), metadata={"anygpu": json.dumps(dict(about))})
    draft.replace(path)
    return path


def _each_once(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors without duplicates. A tensor that has several names keeps only the first."""
    kept: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        kept.setdefault((tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else (name,), name)
    return {name: tensors[name].contiguous() for name in kept.values()}


def load_weights(model: Any, path: Path) -> None:
    from safetensors.torch import load_model

    load_model(model, str(path), device=str(next(model.parameters()).device))


def to_onnx(
    model: Any, example: Any, path: Path, *, inputs: str, output: str, free: Mapping[int, str]
) -> Export:
    """Export a model as ONNX; raise BadExport if its outputs differ from the model's.

    `free` maps each axis of the input that may have any size to a name for it.
    """
    with warnings.catch_warnings():
        # The tracer warns about sizes it treats as constants. The comparison below detects real errors.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            (example,),
            str(path),
            input_names=[inputs],
            output_names=[output],
            dynamic_axes={inputs: dict(free), output: dict(free)},
            opset_version=OPSET,
            dynamo=False,
        )
    other = _of_other_size(example, free)
    return onnx_check.compare_with_model(
        path, {inputs: other.numpy()}, [_answer(model, other)], tolerance=TOLERANCE
    )


def to_torchscript(model: Any, example: Any, path: Path) -> Export:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, example).save(str(path))
        again = torch.jit.load(str(path))
    other = _of_other_size(example, {0: "batch"})
    return _compare_outputs("torchscript", path, _answer(again, other), _answer(model, other), other)


def to_safetensors(
    model: Any, example: Any, path: Path, *, part: str = "", about: Mapping[str, str]
) -> Export:
    """Export the weights of a model, or of its submodule `part`, as safetensors.

    To check the file, it is loaded into a copy of the model whose weights are all zero. Raise BadExport if the
    outputs of the copy differ.
    """
    save_weights(model.get_submodule(part), path, about)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in other.state_dict().values():
            tensor.zero_()
    load_weights(other.get_submodule(part), path)
    return _compare_outputs("safetensors", path, _answer(other, example), _answer(model, example), example)


def _compare_outputs(format: str, path: Path, got: Any, wanted: Any, example: Any) -> Export:
    difference = float((got.double() - wanted.double()).abs().max())
    if not difference <= TOLERANCE:
        raise BadExport(
            f"{path.name}: an output of the exported model differs from the trained model's by "
            f"{difference:.3g}; at most {TOLERANCE:.3g} is allowed. Set `export` to another format"
        )
    shapes = {"input": ("batch", *example.shape[1:])}
    return Export(format=format, path=path, inputs=shapes, difference=difference, tolerance=TOLERANCE)


def _of_other_size(example: Any, free: Mapping[int, str]) -> Any:
    """Return the example input with other sizes on the axes in `free`, to test that exported sizes are not fixed."""
    other = torch.cat([example, example[:1]]) if 0 in free else example
    return other[:, : -(-other.shape[1] // 2)] if 1 in free else other


def _answer(model: Any, example: Any) -> Any:
    with torch.no_grad():
        return model(example)
