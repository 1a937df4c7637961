"""Export a model with its preprocessing to ONNX, with one input per column, and check the result."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

from anygpu.trainers import onnx_check
from anygpu.trainers.result import Export
from anygpu.trainers.tabular.columns import Columns
from anygpu.trainers.tabular.preprocessing import PreparedTable

ROWS = 1000
TOLERANCE = 1e-4  # absolute for probabilities; relative to the largest prediction for regression
OPSET = {"": 17, "ai.onnx.ml": 3}


def onnx(pipeline: Any, data: PreparedTable, path: Path) -> Export:
    rows = data.val.raw[:ROWS]
    expected, tolerance = _model_predictions(pipeline, data, rows)
    if data.labels is not None:
        clear = _has_clear_winner(expected[1])
        rows, expected = rows[clear], [each[clear] for each in expected]
    _write(pipeline, data, path)
    return onnx_check.compare_with_model(path, inputs(data, rows), expected, tolerance=tolerance)


def inputs(data: PreparedTable, rows: Any) -> dict[str, Any]:
    """Return the inputs of the exported model: an array of shape (rows, 1) for each column."""
    columns = zip(input_names(data.columns), data.columns.features, strict=True)
    return {
        name: rows[:, at : at + 1].astype("f4" if column.is_number else str)
        for at, (name, column) in enumerate(columns)
    }


def input_names(columns: Columns) -> list[str]:
    """Return unique input names that ONNX allows: letters, digits and underscores."""
    names: list[str] = []
    for column in columns.features:
        name = re.sub(r"\W", "_", column.name, flags=re.ASCII) or "_"
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _model_predictions(pipeline: Any, data: PreparedTable, rows: Any) -> tuple[list[Any], float]:
    import numpy

    predicted = numpy.asarray(pipeline.predict(rows))
    if data.labels is None:
        numbers = predicted.astype("f8").reshape(-1, 1)
        return [numbers], TOLERANCE * max(1.0, float(numpy.abs(numbers).max()))
    return [predicted, numpy.asarray(pipeline.predict_proba(rows))], TOLERANCE


def _has_clear_winner(probabilities: Any) -> Any:
    """Return a mask of the rows whose most probable class is clearly ahead of the second.

    In other rows, a rounding difference between the two models may change the predicted class.
    """
    import numpy

    best = numpy.sort(probabilities, axis=1)
    return best[:, -1] - best[:, -2] > 2 * TOLERANCE


def _write(pipeline: Any, data: PreparedTable, path: Path) -> None:
    import onnx
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    _know_boosting(type(pipeline[-1]))
    kinds = [
        (name, (FloatTensorType if column.is_number else StringTensorType)([None, 1]))
        for name, column in zip(input_names(data.columns), data.columns.features, strict=True)
    ]
    options = {id(pipeline): {"zipmap": False}} if data.labels is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the converters about their own names
        model = convert_sklearn(pipeline, initial_types=kinds, options=options, target_opset=OPSET)
    classes = model.metadata_props.add()
    classes.key, classes.value = "classes", json.dumps(list(data.columns.classes))
    onnx.save(model, str(path))


def _know_boosting(kind: type) -> None:
    """Register converters for XGBoost and LightGBM models (from onnxmltools), so that skl2onnx can export them."""
    module = kind.__module__.partition(".")[0]
    if module not in ("xgboost", "lightgbm"):
        return
    from onnxmltools.convert.lightgbm.operator_converters.LightGbm import convert_lightgbm
    from onnxmltools.convert.xgboost.operator_converters.XGBoost import convert_xgboost
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator as shapes

    is_classes = hasattr(kind, "predict_proba")
    shape = (
        shapes.calculate_linear_classifier_output_shapes
        if is_classes
        else shapes.calculate_linear_regressor_output_shapes
    )
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]} if is_classes else None
    convert = convert_xgboost if module == "xgboost" else convert_lightgbm
    update_registered_converter(kind, f"Anygpu{kind.__name__}", shape, convert, options=options)
