"""Published peaks of GPU memory beside what is predicted for the same training."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.plan.hardware import models
from anygpu.plan.predict import memory
from anygpu.plan.predict import memory as activations
from anygpu.plan.predict.memory import NumberFormat

TABLE = Path(__file__).parent.parent / "published_memory.json"
_OPTIONS = (
    "batch",
    "precision",
    "half_weights",
    "optimiser",
    "adapters",
    "trained_parameters",
    "recomputes",
    "sequence",
    "pixels",
    "fused_attention",
    "chunked_loss",
)


@dataclass(frozen=True)
class Figure:
    name: str
    source: str
    measure: str
    as_published: str
    published_gb: float
    predicted_gb: float
    inside: bool

    @property
    def error(self) -> float:
        return self.predicted_gb / self.published_gb - 1


def figures() -> list[Figure]:
    return [_figure(row) for row in json.loads(TABLE.read_text())]


def _figure(row: dict[str, Any]) -> Figure:
    shape = models.find_model(row["model"]) if "model" in row else None
    parameters = int(row["parameters"]) if shape is None else shape.parameters
    options = {name: row[name] for name in _OPTIONS if name in row}
    training = memory.TrainingSetup(parameters=parameters, shape=shape, sample_bytes=_sample(row), **options)
    found = memory.estimate_memory(training, context_gb=row.get("context_gb", memory.CONTEXT_GB))
    on_device = row["measure"] == "device"
    published = row["published_gb"]
    peak = published if on_device else published + found.context_gb
    return Figure(
        name=row["name"],
        source=row["source"],
        measure=row["measure"],
        as_published=row["as_published"],
        published_gb=published,
        predicted_gb=found.peak_gb if on_device else found.allocated_gb,
        inside=found.low_gb <= peak <= found.high_gb,
    )


def _sample(row: dict[str, Any]) -> float | None:
    numbers = NumberFormat(element_bytes=4 if row["precision"] == "fp32" else 2)
    if "detector" in row:
        how = row["detector"]
        options = {"width": how["width"], "frozen_norm": how["frozen_norm"]}
        return activations.detector_activations(how["depth"], how["pixels"], how["heads"], numbers, **options)
    if "segmenter" in row:
        how = row["segmenter"]
        return activations.segmenter_activations(
            how["depth"], how["pixels"], numbers, output_stride=how["output_stride"]
        )
    return None
