"""One COCO annotation file: its images and categories, with what is wrong in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anygpu.trainers.data.listing import text_of
from anygpu.trainers.data.shapes import Reading
from anygpu.trainers.errors import BadDataset, Finding

PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class CocoFile:
    path: Path
    content: Mapping[str, Any]
    index: dict[int, int] = field(default_factory=dict)  # category id to class index

    @property
    def annotations(self) -> Sequence[Any]:
        found: Sequence[Any] = self.content["annotations"]
        return found

    @property
    def keypoint_shape(self) -> tuple[int, int] | None:
        """COCO's keypoints have three numbers; ours may say that they came with two."""
        counts = {
            len(each.get("keypoints") or ()) for each in self.content["categories"] if isinstance(each, dict)
        }
        count = max(counts, default=0)
        info = self.content.get("info")
        stated = info.get("keypoint_shape") if isinstance(info, dict) else None
        return None if not count else (count, 2 if stated == [count, 2] else 3)

    def categories(self, reading: Reading) -> dict[int, str]:
        """Names by id. A category that only holds others together is none of the classes."""
        found = _by_id(self, "categories", "name", reading)
        groups = {str(each.get("supercategory")) for each in found.values()}
        used = {str(each.get("category_id")) for each in self.annotations if isinstance(each, dict)}
        return {
            number: str(each["name"])
            for number, each in found.items()
            if str(number) in used or each.get("supercategory") != "none" or str(each["name"]) not in groups
        }

    def images(self, reading: Reading) -> dict[int, dict[str, Any]]:
        found = _by_id(self, "images", "file_name", reading)
        return {number: image for number, image in found.items() if self._has_size(number, image, reading)}

    def _has_size(self, number: int, image: Mapping[str, Any], reading: Reading) -> bool:
        size = image.get("width"), image.get("height")
        if all(isinstance(each, int) and each > 0 for each in size):
            return True
        reading.wrong(
            self.path, f"image {number} ({image['file_name']}): width and height are missing or not above 0"
        )
        return False


def load_file(path: Path) -> CocoFile:
    """BadDataset when it is not JSON, or lacks a part."""
    text = text_of(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadDataset([Finding(path, f"is not JSON: {error.msg}", error.lineno)]) from None
    except RecursionError:
        raise BadDataset([Finding(path, "is not COCO: nested too deeply")]) from None
    missing = [
        part for part in PARTS if not isinstance(content, dict) or not isinstance(content.get(part), list)
    ]
    if missing:
        raise BadDataset([Finding(path, f"is not COCO: the list {missing[0]!r} is missing")])
    return CocoFile(path, content)


def _by_id(file: CocoFile, part: str, named: str, reading: Reading) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for place, each in enumerate(file.content[part]):
        if not isinstance(each, dict) or not is_id(each.get("id")) or not isinstance(each.get(named), str):
            reading.wrong(file.path, f"{part}[{place}] needs an id (a whole number) and a {named}")
        elif each["id"] in found:
            reading.wrong(file.path, f"two {part} have the id {each['id']}")
        else:
            found[each["id"]] = each
    return found


def is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
