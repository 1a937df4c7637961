"""Compute mean average precision as COCO does: over classes and IoU thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float64]

MOST_PER_IMAGE = 100  # COCO evaluates the 100 detections of an image with the highest scores
RECALLS = 101  # points of the precision-recall curve


@dataclass(frozen=True)
class ImageTruth:
    """Ground truth of one image: boxes of shape (n, 4) and their classes."""

    boxes: Any
    labels: Any


@dataclass(frozen=True)
class ImageDetections:
    """Detections in one image: boxes, scores and classes."""

    boxes: Any
    scores: Any
    labels: Any


def thresholds() -> list[float]:
    return [0.5 + 0.05 * step for step in range(10)]


def mean_average_precision(
    detections: Sequence[ImageDetections], truth: Sequence[ImageTruth]
) -> dict[str, float]:
    """Return mAP50 and mAP50-95 over the classes that occur in `truth`.

    Both arguments list the images in the same order.
    """
    import numpy

    if len(detections) != len(truth):
        raise ValueError(
            f"the detections are for {len(detections)} images, but the true boxes for {len(truth)}. This is a "
            "bug in the trainer: both must list the same images; report it"
        )
    classes = sorted({int(label) for image in truth for label in numpy.ravel(image.labels)})
    scores = [_class_average_precisions(detections, truth, each) for each in classes]
    table = numpy.array(scores) if scores else numpy.zeros((1, len(thresholds())))
    return {"mAP50": float(table[:, 0].mean()), "mAP50-95": float(table.mean())}


def overlaps(left: Any, right: Any) -> Floats:
    """Return the IoU of every box in `left` with every box in `right`."""
    import numpy

    a, b = (numpy.asarray(boxes, dtype="f8").reshape(-1, 4) for boxes in (left, right))
    low = numpy.maximum(a[:, None, :2], b[None, :, :2])
    high = numpy.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = numpy.prod(numpy.clip(high - low, 0, None), axis=2)
    union = _areas(a)[:, None] + _areas(b)[None, :] - shared
    iou: Floats = numpy.divide(shared, union, out=numpy.zeros_like(shared), where=union > 0)
    return iou


def _areas(boxes: Floats) -> Floats:
    areas: Floats = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return areas


def _class_average_precisions(
    detections: Sequence[ImageDetections], truth: Sequence[ImageTruth], label: int
) -> list[float]:
    """Return the average precision of one class at each IoU threshold."""
    import numpy

    images = [_one_image(one, other, label) for one, other in zip(detections, truth, strict=True)]
    wanted = sum(iou.shape[1] for iou, _ in images)
    scores = numpy.concatenate([scores for _, scores in images])
    order = numpy.argsort(-scores, kind="stable")
    hits = [numpy.concatenate([_match(iou, least) for iou, _ in images]) for least in thresholds()]
    return [_average_precision(each[order], wanted) for each in hits]


def _one_image(detections: ImageDetections, truth: ImageTruth, label: int) -> tuple[Floats, Floats]:
    """Compare the detections of one class in one image with the true boxes. Return the IoU of each pair and the scores.

    Detections are sorted by score, highest first.
    """
    import numpy

    scores = numpy.asarray(detections.scores, dtype="f8").reshape(-1)
    surest = numpy.argsort(-scores, kind="stable")[:MOST_PER_IMAGE]
    chosen = surest[numpy.asarray(detections.labels).reshape(-1)[surest] == label]
    true = numpy.asarray(truth.labels).reshape(-1) == label
    boxes = numpy.asarray(truth.boxes, dtype="f8").reshape(-1, 4)[true]
    return overlaps(numpy.asarray(detections.boxes, dtype="f8").reshape(-1, 4)[chosen], boxes), scores[chosen]


def _match(iou: Floats, least: float) -> NDArray[numpy.bool_]:
    """Return, for each detection (row of `iou`), whether it matches a true box with an IoU of at least `least`.

    The detections are processed from the highest score down. Each takes the true box with the highest IoU that is still
    free.
    """
    import numpy

    free = iou.copy()
    hits = numpy.zeros(len(iou), dtype=bool)
    for row in range(len(iou) if iou.shape[1] else 0):
        best = int(free[row].argmax())
        if free[row, best] >= least - 1e-12:
            hits[row] = True
            free[:, best] = -1.0
    return hits


def _average_precision(hits: NDArray[numpy.bool_], wanted: int) -> float:
    """Return the average precision as COCO defines it: precision interpolated at 101 recall values."""
    import numpy

    right = numpy.cumsum(hits)
    precision = right / numpy.arange(1, len(hits) + 1)
    envelope = numpy.maximum.accumulate(precision[::-1])[::-1]
    at = numpy.searchsorted(right / wanted, numpy.linspace(0, 1, RECALLS), side="left")
    return float(numpy.append(envelope, 0.0)[numpy.minimum(at, len(hits))].mean())
