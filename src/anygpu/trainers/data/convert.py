"""Write a dataset in another layout: YOLO, COCO or image folder."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from anygpu.trainers.data.dataset import Box, Dataset, Item
from anygpu.trainers.errors import BadDataset, Finding

# Folder names used by exported datasets and by RF-DETR.
COCO_FOLDERS = {
    "train": "train",
    "val": "valid",
    "test": "test",
}
VISIBLE = 2


def to_yolo(dataset: Dataset, target: str | os.PathLike[str]) -> Path:
    """Write data.yaml, images/<split> and labels/<split>; return the path of data.yaml."""
    folder = _fresh_for(dataset, target)
    with_polygons = dataset.has_polygons and dataset.keypoint_shape is None
    for split, items in dataset.splits.items():
        for item, name in unique_names(items):
            _place(item.image, folder / "images" / split / name)
            label = (folder / "labels" / split / name).with_suffix(".txt")
            label.parent.mkdir(parents=True, exist_ok=True)
            label.write_text(
                "".join(_line(box, dataset, with_polygons) for box in item.boxes), encoding="utf-8"
            )
    config = folder / "data.yaml"
    config.write_text(_config(dataset), encoding="utf-8")
    return config


def to_coco(dataset: Dataset, target: str | os.PathLike[str]) -> Path:
    """Write train/, valid/ and test/, each with images and _annotations.coco.json; return the folder."""
    folder = _fresh_for(dataset, target)
    for split, items in dataset.splits.items():
        place = folder / COCO_FOLDERS[split]
        place.mkdir(parents=True)
        names = list(unique_names(items))
        for item, name in names:
            _place(item.image, place / name)
        content = _content(dataset, names)
        (place / "_annotations.coco.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def unique_names(items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """Yield (item, file name) with unique names: the image's name, or the item's id if two have that name."""
    stems = Counter(item.image.stem.lower() for item in items)
    taken: set[str] = set()
    for item in items:
        name = item.image.name if stems[item.image.stem.lower()] == 1 else item.id.replace("/", "__")
        stem, suffix = os.path.splitext(name)  # noqa: PTH122
        while stem.lower() in taken:
            stem += "_" + suffix.lstrip(".")
        taken.add(stem.lower())
        yield item, stem + suffix


def to_image_folder(dataset: Dataset, target: str | os.PathLike[str]) -> Path:
    """Write the images as <split>/<class>/<image> in the folder `target`; return the folder."""
    folder = _fresh(Path(target))
    for split, items in dataset.splits.items():
        for index, class_name in enumerate(dataset.classes):
            place = folder / split / class_name
            place.mkdir(parents=True)
            for item, name in unique_names([item for item in items if item.label == index]):
                _place(item.image, place / name)
    return folder


def _fresh_for(dataset: Dataset, target: str | os.PathLike[str]) -> Path:
    if dataset.layout == "image-folder":
        raise BadDataset(
            [
                Finding(
                    dataset.root,
                    "an image folder has no boxes, so it cannot be converted to YOLO or COCO; convert it to "
                    "image-folder",
                )
            ]
        )
    return _fresh(Path(target))


def _fresh(target: Path) -> Path:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadDataset(
            [Finding(target, "exists already and is not an empty folder; name a new or an empty one")]
        )
    target.mkdir(parents=True, exist_ok=True)
    return target


def _place(source: Path, target: Path) -> None:
    """Put the image `source` at `target`: as a hard link, or as a copy if the file system does not support links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


# -- YOLO ---------------------------------------------------------------------------------------------------


def _config(dataset: Dataset) -> str:
    """Return the text of data.yaml. Class names are written as JSON strings, because these are valid YAML."""
    lines = [f"{split}: images/{split}" for split in dataset.splits]
    if dataset.keypoint_shape is not None:
        lines.append(f"kpt_shape: {list(dataset.keypoint_shape)}")
    lines += [f"nc: {len(dataset.classes)}", "names:"]
    lines += [
        f"  {index}: {json.dumps(name, ensure_ascii=False)}" for index, name in enumerate(dataset.classes)
    ]
    return "\n".join(lines) + "\n"


def _line(box: Box, dataset: Dataset, with_polygons: bool) -> str:
    numbers: Sequence[float] = (box.x, box.y, box.w, box.h)
    if dataset.keypoint_shape is not None:
        count, each = dataset.keypoint_shape
        numbers = (*numbers, *(box.keypoints or (0.0,) * (count * each)))
    elif with_polygons:
        numbers = box.polygon or _rectangle(box)
    return " ".join((str(box.class_index), *map(repr, map(float, numbers)))) + "\n"


def _rectangle(box: Box) -> tuple[float, ...]:
    """Return a box as a polygon of four corners: a YOLO dataset has either boxes or polygons, not both."""
    left, top, right, bottom = box.corners
    return left, top, right, top, right, bottom, left, bottom


# -- COCO ---------------------------------------------------------------------------------------------------


def _content(dataset: Dataset, names: Sequence[tuple[Item, str]]) -> dict[str, Any]:
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, (item, name) in enumerate(names, 1):
        images.append({"id": number, "file_name": name, "width": item.width, "height": item.height})
        for box in item.boxes:
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": number,
                    **_annotation(box, item, dataset.keypoint_shape),
                }
            )
    info = {"keypoint_shape": list(dataset.keypoint_shape)} if dataset.keypoint_shape else {}
    return {"info": info, "images": images, "annotations": annotations, "categories": _categories(dataset)}


def _categories(dataset: Dataset) -> list[dict[str, Any]]:
    shape = dataset.keypoint_shape
    points = {"keypoints": [f"point_{number}" for number in range(shape[0])], "skeleton": []} if shape else {}
    return [
        {"id": number, "name": name, "supercategory": "object", **points}
        for number, name in enumerate(dataset.classes, 1)
    ]


def _annotation(box: Box, item: Item, shape: tuple[int, int] | None) -> Mapping[str, Any]:
    width, height = item.width, item.height
    bbox = [(box.x - box.w / 2) * width, (box.y - box.h / 2) * height, box.w * width, box.h * height]
    pixels = [number * (width, height)[place % 2] for place, number in enumerate(box.polygon)]
    return {
        "category_id": box.class_index + 1,
        "bbox": bbox,
        "area": _area(pixels) if pixels else bbox[2] * bbox[3],
        "iscrowd": 0,
        "segmentation": [pixels] if pixels else [],
        **(_points(box, item, shape) if shape and box.keypoints else {}),
    }


def _points(box: Box, item: Item, shape: tuple[int, int]) -> dict[str, Any]:
    flat: list[float] = []
    for at in range(0, len(box.keypoints), shape[1]):
        x, y, *seen = box.keypoints[at : at + shape[1]]
        flat += [x * item.width, y * item.height, seen[0] if seen else VISIBLE]
    return {"keypoints": flat, "num_keypoints": sum(seen > 0 for seen in flat[2::3])}


def _area(flat: Sequence[float]) -> float:
    """Compute the area of a polygon with the shoelace formula."""
    points = list(zip(flat[0::2], flat[1::2], strict=True))
    after = [*points[1:], points[0]]
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(points, after, strict=True))) / 2
