"""Dataset statistics: counts by class and split, image and object sizes, and class imbalance."""

from __future__ import annotations

import statistics as numbers
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anygpu.trainers.data.dataset import Dataset, Item

SMALL, MEDIUM = 32**2, 96**2  # area limits of COCO's evaluation, in pixels


@dataclass(frozen=True, kw_only=True)
class Spread:
    least: float
    median: float
    most: float


@dataclass(frozen=True, kw_only=True)
class ClassCount:
    name: str
    images: Mapping[str, int]  # by split: images that contain the class
    objects: Mapping[str, int]  # by split: boxes; in an image folder, images
    width: Spread | None = None  # of its boxes, as fractions of the image
    height: Spread | None = None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    layout: str
    images: Mapping[str, int]
    empty: Mapping[str, int]  # images without objects
    classes: tuple[ClassCount, ...]
    image_width: Spread
    image_height: Spread
    object_sizes: Mapping[str, int]  # small, medium and large, as COCO defines them
    imbalance: float | None  # most over least frequent class in train; None: a class is missing

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def statistics(dataset: Dataset) -> Statistics:
    items = list(dataset.items)
    classes = _count_classes(dataset)
    return Statistics(
        layout=dataset.layout,
        images={split: len(part) for split, part in dataset.splits.items()},
        empty={split: sum(not item.classes for item in part) for split, part in dataset.splits.items()},
        classes=classes,
        image_width=_spread([item.width for item in items]),
        image_height=_spread([item.height for item in items]),
        object_sizes=_sizes(items),
        imbalance=_imbalance([each.objects["train"] for each in classes]),
    )


def _count_classes(dataset: Dataset) -> tuple[ClassCount, ...]:
    parts = dataset.splits.items()
    images = {split: Counter(index for item in part for index in item.classes) for split, part in parts}
    objects = {split: Counter(index for item in part for index in _objects(item)) for split, part in parts}
    widths, heights = defaultdict(list), defaultdict(list)
    for box in (box for item in dataset.items for box in item.boxes):
        widths[box.class_index].append(box.w)
        heights[box.class_index].append(box.h)
    return tuple(
        ClassCount(
            name=name,
            images={split: count[index] for split, count in images.items()},
            objects={split: count[index] for split, count in objects.items()},
            width=_spread(widths[index]) if index in widths else None,
            height=_spread(heights[index]) if index in heights else None,
        )
        for index, name in enumerate(dataset.classes)
    )


def _objects(item: Item) -> Iterator[int]:
    if item.label is not None:
        yield item.label
    for box in item.boxes:
        yield box.class_index


def _spread(values: Sequence[float]) -> Spread:
    return Spread(least=min(values), median=numbers.median(values), most=max(values))


def _sizes(items: Sequence[Item]) -> dict[str, int]:
    areas = (box.w * item.width * box.h * item.height for item in items for box in item.boxes)
    counts = Counter("small" if area < SMALL else "medium" if area < MEDIUM else "large" for area in areas)
    return {name: counts[name] for name in ("small", "medium", "large")}


def _imbalance(counts: Sequence[int]) -> float | None:
    return max(counts) / min(counts) if counts and min(counts) > 0 else None
