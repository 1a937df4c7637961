"""Check boxes of any annotation format, and that a dataset has the annotations a task needs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from anygpu.trainers.data.dataset import Box, LayoutContents

# Annotation tools round coordinates: allow boxes to exceed the image by 1 % of its size.
OVER_THE_EDGE = 0.01


def problems(box: Box, classes: int | None) -> Iterator[str]:
    """Yield a message for each problem of an annotated box. `classes` is the number of classes, or None if unknown."""
    if not all(map(math.isfinite, (*box[1:5], *box.polygon, *box.keypoints))):
        yield "a coordinate is NaN or infinite; correct it, or remove the object"
        return
    if box.class_index < 0 or (classes is not None and box.class_index >= classes):
        top = f" to {classes - 1}" if classes else ""
        yield f"class index {box.class_index} is out of range: classes go from 0{top}"
    if box.w <= 0 or box.h <= 0:
        yield f"the box has no size: width {box.w:.6g}, height {box.h:.6g}"
    elif not _is_inside(box.corners) or not _is_inside(box.polygon):
        yield f"the box is outside the image: {_describe_box(box)}, but both must be from 0 to 1"


def _is_inside(numbers: tuple[float, ...]) -> bool:
    return not numbers or (min(numbers) >= -OVER_THE_EDGE and max(numbers) <= 1 + OVER_THE_EDGE)


def _describe_box(box: Box) -> str:
    numbers = box.polygon or box.corners
    across, down = numbers[0::2], numbers[1::2]
    return f"x from {min(across):.4g} to {max(across):.4g}, y from {min(down):.4g} to {max(down):.4g}"


def bounding_box(polygon: tuple[float, ...]) -> tuple[float, float, float, float]:
    """Return centre x and y, width and height of the bounding box of a polygon (x, y, x, y, ...)."""
    across, down = polygon[0::2], polygon[1::2]
    left, right, top, bottom = min(across), max(across), min(down), max(down)
    return (left + right) / 2, (top + bottom) / 2, right - left, bottom - top


def check_task(reading: LayoutContents, task: str) -> None:
    """Add a problem to the result `reading` if the dataset lacks the annotations that the task needs."""
    wanted = TASKS.get(task.lower().replace("_", "-"), "")
    if wanted and (wanted == "classify") != (reading.layout == "image-folder"):
        other = (
            "an image folder (train/<class>/x.jpg)" if wanted == "classify" else "YOLO or COCO annotations"
        )
        reading.wrong(reading.root, f"task {task!r} needs {other}; this dataset is {reading.layout}")
    elif wanted == "segment":
        _all_have(
            "polygon",
            reading,
            "task 'segment' needs polygons, but some objects of this image have only a box",
        )
    elif wanted == "pose" and reading.keypoint_shape is None:
        reading.wrong(reading.root, "task 'pose' needs keypoints; set kpt_shape in data.yaml")


def _all_have(part: str, reading: LayoutContents, what: str) -> None:
    for drafts in reading.drafts.values():
        for draft in drafts:
            if not all(getattr(box, part) for box in draft.boxes):
                reading.wrong(draft.image, what)


TASKS = {
    "detect": "detect",
    "detection": "detect",
    "object-detection": "detect",
    "segment": "segment",
    "segmentation": "segment",
    "instance-segmentation": "segment",
    "pose": "pose",
    "keypoints": "pose",
    "pose-estimation": "pose",
    "keypoint-detection": "pose",
    "classify": "classify",
    "classification": "classify",
    "image-classification": "classify",
}
