"""Compare an ONNX file with the model it was exported from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anygpu.trainers.errors import BadExport
from anygpu.trainers.result import Export


def compare_with_model(
    path: Path, inputs: Mapping[str, Any], expected: Sequence[Any], *, tolerance: float
) -> Export:
    """Run `path` in onnxruntime on `inputs` (arrays by name) and compare the outputs with `expected`.

    Raise BadExport if an output differs by more than `tolerance`.
    """
    import numpy
    import onnx
    import onnxruntime

    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    outputs = session.run(None, dict(inputs))
    if len(outputs) < len(expected):
        raise BadExport(
            f"{path.name}: the exported model has {len(outputs)} outputs, but the trained model has "
            f"{len(expected)}. Set `export` to another format"
        )
    difference = max(
        _difference(numpy, got, wanted, path) for got, wanted in zip(outputs, expected, strict=False)
    )
    if not difference <= tolerance:
        raise BadExport(
            f"{path.name}: an output of the exported model differs from the trained model's by "
            f"{difference:.3g}; at most {tolerance:.3g} is allowed. Set `export` to another format"
        )
    return Export(
        format="onnx",
        path=path,
        opset=max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx")),
        inputs={each.name: tuple(each.shape) for each in session.get_inputs()},
        difference=difference,
        tolerance=tolerance,
    )


def _difference(numpy: Any, got: Any, wanted: Any, path: Path) -> float:
    left, right = numpy.asarray(got), numpy.asarray(wanted)
    if left.shape != right.shape:
        raise BadExport(
            f"{path.name}: an output of the exported model has the shape {left.shape}, but the trained "
            f"model's has {right.shape}. Set `export` to another format"
        )
    if left.dtype.kind not in "fiub":
        return 0.0 if (left == right).all() else float("inf")
    return float(numpy.max(numpy.abs(left.astype("f8") - right.astype("f8")), initial=0.0))
