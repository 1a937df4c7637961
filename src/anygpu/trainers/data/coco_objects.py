"""COCO's annotations as boxes: pixels become fractions, the parts of a mask become one polygon."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.trainers.data.checks import around, problems
from anygpu.trainers.data.coco_file import CocoFile, is_id
from anygpu.trainers.data.shapes import Box, Reading

Image = Mapping[str, Any]


def read_objects(
    file: CocoFile, images: Mapping[int, Image], reading: Reading
) -> defaultdict[int, list[Box]]:
    """The boxes of each image, by its id."""
    found: defaultdict[int, list[Box]] = defaultdict(list)
    seen: set[int] = set()
    crowds = 0
    for place, each in enumerate(file.annotations):
        where = _where(place, each)
        try:
            image = _image(each, images, seen)
            if each.get("iscrowd"):
                crowds += 1
                continue
            box = _box(each, image, file, reading)
        except ValueError as error:
            reading.wrong(file.path, f"{where}: {error}")
            continue
        wrong = list(problems(box, None))
        for what in wrong:
            reading.wrong(file.path, f"{where} of {image['file_name']}: {what}")
        if not wrong:
            found[each["image_id"]].append(box)
    if crowds:
        reading.note(file.path, f"{crowds:,} crowds (iscrowd) are left out")
    return found


def _where(place: int, annotation: Any) -> str:
    known = annotation.get("id") if isinstance(annotation, dict) else None
    return f"annotation {known}" if is_id(known) else f"annotations[{place}]"


def _image(annotation: Any, images: Mapping[int, Image], seen: set[int]) -> Image:
    if not isinstance(annotation, dict):
        raise ValueError("has to be an object")
    number = annotation.get("id")
    if is_id(number):
        if number in seen:
            raise ValueError("another annotation has the same id")
        seen.add(int(str(number)))
    wanted = annotation.get("image_id")
    if not is_id(wanted) or wanted not in images:
        raise ValueError(f"there is no usable image with the id {str(wanted)[:40]}")
    return images[annotation["image_id"]]


def _box(annotation: Mapping[str, Any], image: Image, file: CocoFile, reading: Reading) -> Box:
    category = annotation.get("category_id")
    if category not in file.index:
        raise ValueError(
            f"unknown category {category!r}; there are {', '.join(map(str, sorted(file.index)))}"
        )
    size = image["width"], image["height"]
    polygon = _polygon(annotation.get("segmentation"), size, file, reading)
    return Box(
        file.index[category],
        *_centre_and_size(annotation.get("bbox"), polygon, size),
        polygon=polygon,
        keypoints=_keypoints(annotation.get("keypoints"), size, reading.keypoint_shape),
    )


def _centre_and_size(
    bbox: Any, polygon: tuple[float, ...], size: tuple[int, int]
) -> tuple[float, float, float, float]:
    if bbox is None and polygon:
        return around(polygon)
    if not _is_numbers(bbox) or len(bbox) != 4:
        raise ValueError(f"bbox has to be four numbers (x, y, width, height), not {str(bbox)[:40]}")
    x, y, w, h = bbox
    return (x + w / 2) / size[0], (y + h / 2) / size[1], w / size[0], h / size[1]


def _polygon(segmentation: Any, size: tuple[int, int], file: CocoFile, reading: Reading) -> tuple[float, ...]:
    if not segmentation:
        return ()
    if isinstance(segmentation, dict):
        note = "masks written as run lengths (RLE) are not read: their objects have a box only"
        if not any(each.what == note for each in reading.notes):
            reading.note(file.path, note)
        return ()
    parts = segmentation if isinstance(segmentation, list) else [segmentation]
    if not all(_is_numbers(part) and len(part) >= 6 and len(part) % 2 == 0 for part in parts):
        raise ValueError("segmentation has to be lists of three or more x, y pairs")
    return merged([_fractions(part, size) for part in parts])


def _keypoints(given: Any, size: tuple[int, int], shape: tuple[int, int] | None) -> tuple[float, ...]:
    """Of an object without keypoints, none is visible."""
    if shape is None:
        return ()
    flat = given or [0] * (3 * shape[0])
    if not _is_numbers(flat) or len(flat) != 3 * shape[0]:
        raise ValueError(f"keypoints have to be {shape[0]} times x, y, visibility")
    points = zip(flat[0::3], flat[1::3], flat[2::3], strict=True)
    return tuple(
        each for x, y, seen in points for each in (x / size[0], y / size[1], float(seen))[: shape[1]]
    )


def merged(parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """One polygon that goes to the other parts and back by the shortest way: no area is added."""
    points = _points(parts[0])
    for part in parts[1:]:
        other = _points(part)
        here, there = min(
            ((a, b) for a in range(len(points)) for b in range(len(other))),
            key=lambda pair: _distance(points[pair[0]], other[pair[1]]),
        )
        round_trip = [*other[there:], *other[: there + 1]]
        points = [*points[: here + 1], *round_trip, *points[here:]]
    return tuple(number for point in points for number in point)


def _points(flat: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(flat[0::2], flat[1::2], strict=True))


def _distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2


def _fractions(flat: Sequence[float], size: tuple[int, int]) -> tuple[float, ...]:
    return tuple(number / size[place % 2] for place, number in enumerate(flat))


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in value
    )
