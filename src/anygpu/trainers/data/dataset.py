"""Types of an image dataset, the same for all layouts on disk: images with classes or boxes, in splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from anygpu.trainers.errors import Finding

TRAIN, VAL, TEST = "train", "val", "test"


class Box(NamedTuple):
    """One annotated object: its class, and its centre and size as fractions of the image (0 to 1).

    `polygon`: x, y, x, y, ... `keypoints`: x and y of each keypoint, or x, y and visibility.
    """

    class_index: int
    x: float
    y: float
    w: float
    h: float
    polygon: tuple[float, ...] = ()
    keypoints: tuple[float, ...] = ()

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom edge, as fractions of the image."""
        return self.x - self.w / 2, self.y - self.h / 2, self.x + self.w / 2, self.y + self.h / 2


@dataclass(frozen=True, kw_only=True)
class Item:
    """One image of a dataset. `label` is its class in an image folder; `boxes` are its objects in other layouts."""

    id: str  # path relative to the dataset's root, with `/` as separator
    image: Path
    width: int
    height: int
    label: int | None = None
    boxes: tuple[Box, ...] = ()
    sha256: str = ""  # hash of the image file

    @property
    def classes(self) -> frozenset[int]:
        indices = {box.class_index for box in self.boxes}
        return frozenset(indices if self.label is None else indices | {self.label})


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """An image dataset without problems, split into train and val."""

    root: Path
    layout: str  # "yolo", "coco" or "image-folder"
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[Item, ...]]  # always "train" and "val"; "test" if the dataset has it
    sha256: str  # hash of images, classes, boxes and splits
    # Number of keypoints, and numbers per keypoint: 2 (x, y) or 3 (x, y, visibility).
    keypoint_shape: tuple[int, int] | None = None
    has_own_split: bool = True  # False: split by anygpu
    notes: tuple[Finding, ...] = field(default=(), compare=False)  # warnings that do not prevent training

    @property
    def items(self) -> Iterator[Item]:
        for split in self.splits.values():
            yield from split

    @property
    def has_polygons(self) -> bool:
        return any(box.polygon for item in self.items for box in item.boxes)


class ItemDraft(NamedTuple):
    """An image that was listed in a dataset, before the image file itself is checked."""

    image: Path
    label: int | None = None
    boxes: tuple[Box, ...] = ()
    stated_size: tuple[int, int] | None = None  # width and height in the annotations; None: not stated


@dataclass
class LayoutContents:
    """The result of reading a dataset: the images of each split, the classes, and all problems found."""

    root: Path
    layout: str
    classes: tuple[str, ...] = ()
    drafts: dict[str, list[ItemDraft]] = field(default_factory=dict)
    keypoint_shape: tuple[int, int] | None = None
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # splits whose missing images are already reported
    resolved: dict[Path, Path] = field(default_factory=dict)  # cache: folder to its real path

    def wrong(self, path: Path, what: str, line: int | None = None) -> None:
        printable = what.encode("utf-8", "backslashreplace").decode()
        self.findings.append(Finding(path, printable, line))

    def note(self, path: Path, what: str) -> None:
        self.notes.append(Finding(path, what))
