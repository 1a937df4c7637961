"""Datasets as trainers see them: images with classes and boxes, in splits, whatever their layout on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from anygpu.trainers.errors import Finding

TRAIN, VAL, TEST = "train", "val", "test"


class Box(NamedTuple):
    """One object: its class, centre and size, all as fractions of the image (0..1).

    `polygon`: x, y, x, y, ...; `keypoints`: x, y (and visibility, when the dataset has it) of each in turn.
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
        """Left, top, right, bottom."""
        return self.x - self.w / 2, self.y - self.h / 2, self.x + self.w / 2, self.y + self.h / 2


@dataclass(frozen=True, kw_only=True)
class Item:
    """One image. `label` is its class in an image folder, `boxes` what is in it elsewhere."""

    id: str  # its path within the dataset, with `/`: the same wherever the dataset lies
    image: Path
    width: int
    height: int
    label: int | None = None
    boxes: tuple[Box, ...] = ()
    sha256: str = ""  # of the file

    @property
    def classes(self) -> frozenset[int]:
        found = {box.class_index for box in self.boxes}
        return frozenset(found if self.label is None else found | {self.label})


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Checked data, ready to be trained on."""

    root: Path
    layout: str  # "yolo", "coco" or "image-folder"
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[Item, ...]]  # "train" and "val" always, "test" when the dataset has one
    sha256: str  # of everything in it: images, classes, boxes, splits
    keypoint_shape: tuple[int, int] | None = (
        None  # how many, and 2 (x, y) or 3 (x, y, visibility) numbers each
    )
    has_own_split: bool = True  # False: it came without, and was split here
    notes: tuple[Finding, ...] = field(default=(), compare=False)  # worth knowing, but no reason not to train

    @property
    def items(self) -> Iterator[Item]:
        for split in self.splits.values():
            yield from split

    @property
    def has_polygons(self) -> bool:
        return any(box.polygon for item in self.items for box in item.boxes)


class ItemDraft(NamedTuple):
    """An image as a layout's reader found it, not looked at yet."""

    image: Path
    label: int | None = None
    boxes: tuple[Box, ...] = ()
    stated_size: tuple[int, int] | None = None  # what the annotations say; None: they say nothing


@dataclass
class LayoutContents:
    """What the reader of a layout found: the drafts of each split, and everything that is wrong."""

    root: Path
    layout: str
    classes: tuple[str, ...] = ()
    drafts: dict[str, list[ItemDraft]] = field(default_factory=dict)
    keypoint_shape: tuple[int, int] | None = None
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)  # splits with images that other findings say are missing
    resolved: dict[Path, Path] = field(default_factory=dict)  # folders, to where they really are

    def wrong(self, path: Path, what: str, line: int | None = None) -> None:
        printable = what.encode("utf-8", "backslashreplace").decode()
        self.findings.append(Finding(path, printable, line))

    def note(self, path: Path, what: str) -> None:
        self.notes.append(Finding(path, what))
