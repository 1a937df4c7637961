"""Read a COCO annotation file; convert its annotations to boxes and polygons, as fractions of the image."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anygpu.trainers.data.box_checks import bounding_box, problems
from anygpu.trainers.data.dataset import Box, LayoutContents
from anygpu.trainers.data.files import text_of
from anygpu.trainers.errors import BadDataset, Finding

PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class CocoFile:
    path: Path
    content: Mapping[str, Any]
    index: dict[int, int] = field(default_factory=dict)  # category id to class index

    @property
    def annotations(self) -> Sequence[Any]:
        annotations: Sequence[Any] = self.content["annotations"]
        return annotations

    @property
    def keypoint_shape(self) -> tuple[int, int] | None:
        """Number of keypoints, and numbers per keypoint.

        COCO has three numbers per keypoint: x, y and visibility. If `to_coco` wrote the file from a dataset
        without visibility, the file says so, and the number is two.
        """
        counts = {
            len(each.get("keypoints") or ()) for each in self.content["categories"] if isinstance(each, dict)
        }
        count = max(counts, default=0)
        info = self.content.get("info")
        stated = info.get("keypoint_shape") if isinstance(info, dict) else None
        return None if not count else (count, 2 if stated == [count, 2] else 3)

    def categories(self, reading: LayoutContents) -> dict[int, str]:
        """Return category names by id, without unused categories that are only the supercategory of others."""
        categories = _by_id(self, "categories", "name", reading)
        groups = {str(each.get("supercategory")) for each in categories.values()}
        used = {str(each.get("category_id")) for each in self.annotations if isinstance(each, dict)}
        return {
            number: str(each["name"])
            for number, each in categories.items()
            if str(number) in used or each.get("supercategory") != "none" or str(each["name"]) not in groups
        }

    def images(self, reading: LayoutContents) -> dict[int, dict[str, Any]]:
        images = _by_id(self, "images", "file_name", reading)
        return {number: image for number, image in images.items() if self._has_size(number, image, reading)}

    def _has_size(self, number: int, image: Mapping[str, Any], reading: LayoutContents) -> bool:
        size = image.get("width"), image.get("height")
        if all(isinstance(each, int) and each > 0 for each in size):
            return True
        reading.wrong(
            self.path,
            f"image {number} ({image['file_name']}): width and height have to be whole numbers above 0",
        )
        return False


def load_file(path: Path) -> CocoFile:
    """Load a COCO file; raise BadDataset if it is not JSON or a required list is missing."""
    text = text_of(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadDataset(
            [Finding(path, f"is not valid JSON: {error.msg}; correct this line", error.lineno)]
        ) from None
    except RecursionError:
        raise BadDataset(
            [
                Finding(
                    path,
                    "is not a COCO file: its JSON is nested too deeply; give a JSON file with the lists images, "
                    "annotations and categories",
                )
            ]
        ) from None
    missing = [
        part for part in PARTS if not isinstance(content, dict) or not isinstance(content.get(part), list)
    ]
    if missing:
        raise BadDataset(
            [
                Finding(
                    path, f"is not a COCO file: it has no list {missing[0]!r}; add it, or give another file"
                )
            ]
        )
    return CocoFile(path, content)


def _by_id(file: CocoFile, part: str, named: str, reading: LayoutContents) -> dict[int, dict[str, Any]]:
    records: dict[int, dict[str, Any]] = {}
    for place, each in enumerate(file.content[part]):
        if not isinstance(each, dict) or not is_id(each.get("id")) or not isinstance(each.get(named), str):
            reading.wrong(file.path, f"{part}[{place}] needs an id (a whole number) and a {named}")
        elif each["id"] in records:
            reading.wrong(file.path, f"two {part} have the id {each['id']}; give each a different id")
        else:
            records[each["id"]] = each
    return records


def is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


Image = Mapping[str, Any]


def read_objects(
    file: CocoFile, images: Mapping[int, Image], reading: LayoutContents
) -> defaultdict[int, list[Box]]:
    """Return the boxes of each image, by image id. Add invalid annotations as problems to the result `reading`."""
    boxes: defaultdict[int, list[Box]] = defaultdict(list)
    seen: set[int] = set()
    crowds = 0
    for place, each in enumerate(file.annotations):
        where = _location(place, each)
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
            boxes[each["image_id"]].append(box)
    if crowds:
        reading.note(file.path, f"{crowds:,} crowd annotations (iscrowd) are ignored")
    return boxes


def _location(place: int, annotation: Any) -> str:
    annotation_id = annotation.get("id") if isinstance(annotation, dict) else None
    return f"annotation {annotation_id}" if is_id(annotation_id) else f"annotations[{place}]"


def _image(annotation: Any, images: Mapping[int, Image], seen: set[int]) -> Image:
    if not isinstance(annotation, dict):
        raise ValueError("has to be a JSON object; write it as {...}")
    number = annotation.get("id")
    if is_id(number):
        if number in seen:
            raise ValueError("another annotation has the same id; give each a different id")
        seen.add(int(str(number)))
    wanted = annotation.get("image_id")
    if not is_id(wanted) or wanted not in images:
        raise ValueError(
            f"image_id is {str(wanted)[:40]}, but no valid entry of images has this id; correct it, or remove "
            "the annotation"
        )
    return images[annotation["image_id"]]


def _box(annotation: Mapping[str, Any], image: Image, file: CocoFile, reading: LayoutContents) -> Box:
    category = annotation.get("category_id")
    if category not in file.index:
        raise ValueError(
            f"unknown category_id {category!r}; the categories are {', '.join(map(str, sorted(file.index)))}"
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
        return bounding_box(polygon)
    if not _is_numbers(bbox) or len(bbox) != 4:
        raise ValueError(
            f"bbox has to be four numbers (x, y, width, height), not {str(bbox)[:40]}; correct it, or remove "
            "the annotation"
        )
    x, y, w, h = bbox
    return (x + w / 2) / size[0], (y + h / 2) / size[1], w / size[0], h / size[1]


def _polygon(
    segmentation: Any, size: tuple[int, int], file: CocoFile, reading: LayoutContents
) -> tuple[float, ...]:
    if not segmentation:
        return ()
    if isinstance(segmentation, dict):
        note = "run-length encoded masks (RLE) are not supported: for these objects, only the box is used"
        if not any(each.what == note for each in reading.notes):
            reading.note(file.path, note)
        return ()
    parts = segmentation if isinstance(segmentation, list) else [segmentation]
    if not all(_is_numbers(part) and len(part) >= 6 and len(part) % 2 == 0 for part in parts):
        raise ValueError(
            "segmentation has to be lists of three or more x, y pairs; correct it, or remove the annotation"
        )
    return merge_polygons([_fractions(part, size) for part in parts])


def _keypoints(given: Any, size: tuple[int, int], shape: tuple[int, int] | None) -> tuple[float, ...]:
    """Return keypoints as fractions of the image. An object without keypoints gets all of them as not visible."""
    if shape is None:
        return ()
    flat = given or [0] * (3 * shape[0])
    if not _is_numbers(flat) or len(flat) != 3 * shape[0]:
        raise ValueError(
            f"keypoints has to list x, y and visibility of {shape[0]} points; correct it, or remove the "
            "annotation"
        )
    points = zip(flat[0::3], flat[1::3], flat[2::3], strict=True)
    return tuple(
        each for x, y, seen in points for each in (x / size[0], y / size[1], float(seen))[: shape[1]]
    )


def merge_polygons(parts: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Join polygons into one.

    The line that connects two polygons joins their closest points and is followed there and back, so that it
    adds no area.
    """
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
