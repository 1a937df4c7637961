"""Read COCO datasets: one JSON file per split, with images, annotations and categories.

Supported layouts:

    annotations/instances_train2017.json, images in train2017/
    train/_annotations.coco.json, next to its images
    a single annotation file
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

from anygpu.trainers.data.coco_annotations import CocoFile, load_file, read_objects
from anygpu.trainers.data.dataset import TRAIN, ItemDraft, LayoutContents
from anygpu.trainers.data.files import folders_in, is_within, split_name
from anygpu.trainers.errors import BadDataset

NAME = "coco"
BESIDE = ("_annotations.coco.json", "annotations.json", "annotations.coco.json")
OTHER_TASKS = ("caption", "panoptic", "stuff", "image_info")


def looks_like(root: Path) -> bool:
    return bool(_files_in(root, ""))


def read(root: Path, task: str = "") -> LayoutContents:
    return _read(root, _files_in(root, task))


def read_file(file: Path) -> LayoutContents:
    """Read the dataset of one annotation file. Its images are next to the file, or in a folder next to it."""
    return _read(file.parent, [(split_name(_split_word(file)) or TRAIN, file)])


def _read(root: Path, files: list[tuple[str, Path]]) -> LayoutContents:
    reading = LayoutContents(root, NAME)
    loaded = []
    for split, path in files:
        try:
            loaded.append((split, load_file(path)))
        except BadDataset as error:
            reading.findings += error.findings
    _check_one_file_each(files, reading)
    _read_categories([file for _, file in loaded], reading)
    for split, file in loaded:
        reading.drafts[split] = _drafts(file, split, reading)
    return reading


def _files_in(root: Path, task: str) -> list[tuple[str, Path]]:
    """Return the annotation files with their splits. A file whose name contains no split counts as train."""
    beside = [
        (split_name(folder.name), folder / name)
        for folder in folders_in(root)
        for name in BESIDE
        if split_name(folder.name) and (folder / name).is_file()
    ]
    if beside:
        return beside
    files = _prefer_instances([*root.glob("annotations/*.json"), *root.glob("*.json")], task)
    return [(split_name(_split_word(path)) or TRAIN, path) for path in files]


def _prefer_instances(paths: list[Path], task: str) -> list[Path]:
    """Choose the annotation files for a task, from all `paths`.

    COCO has one file per task: pose estimation needs the files named `keypoints`, other tasks `instances`.
    """
    usable = [path for path in sorted(paths) if not path.name.startswith(OTHER_TASKS) and _is_coco(path)]
    wanted = "keypoints" if "pose" in task or "keypoint" in task else "instances"
    return [path for path in usable if wanted in path.name] or usable


def _is_coco(path: Path) -> bool:
    return not path.name.startswith(".") and b'"annotations"' in path.read_bytes()


def _split_word(path: Path) -> str:
    """Return the word of the file name that names a split: `train2017` for `instances_train2017.json`."""
    words = path.stem.replace("-", "_").replace(".", "_").split("_")
    return next((word for word in reversed(words) if split_name(word)), "")


def _check_one_file_each(files: list[tuple[str, Path]], reading: LayoutContents) -> None:
    counts = Counter(split for split, _ in files)
    for split, path in files:
        if counts[split] > 1:
            reading.wrong(
                path,
                f"{counts[split]} annotation files are for the split {split}; keep one, or name them train and val",
            )


def _read_categories(files: list[CocoFile], reading: LayoutContents) -> None:
    """Set the classes and the keypoint shape of the result `reading` from the categories of all files.

    A category id must have the same name in every file.
    """
    names: dict[int, str] = {}
    for file in files:
        for number, name in file.categories(reading).items():
            if names.setdefault(number, name) != name:
                reading.wrong(
                    file.path,
                    f"category {number} is {name!r} here but {names[number]!r} in another file; use one name",
                )
    reading.classes = tuple(names[number] for number in sorted(names))
    for name, count in Counter(reading.classes).items():
        if count > 1 or not name.isprintable():
            reading.wrong(reading.root, f"{count} categories are called {name!r}; give each a different name")
    shapes = {shape for file in files if (shape := file.keypoint_shape) is not None}
    if len(shapes) > 1:
        reading.wrong(
            reading.root,
            f"the files have different numbers of keypoints: {sorted(shapes)}; use the same number in all",
        )
    reading.keypoint_shape = next(iter(shapes), None)
    for file in files:
        file.index.update({number: place for place, number in enumerate(sorted(names))})


def _drafts(file: CocoFile, split: str, reading: LayoutContents) -> list[ItemDraft]:
    images = file.images(reading)
    boxes = read_objects(file, images, reading)
    places = _ImageFinder(file.path, split, reading.root)
    drafts = []
    if file.content["images"]:
        reading.lost.add(split)
    for number, image in images.items():
        path = places.find(image["file_name"])
        if path is None:
            reading.wrong(
                file.path,
                f"the image {image['file_name']} (id {number}) does not exist; add it, or remove its entry",
            )
        elif is_within(path, reading):
            drafts.append(ItemDraft(path, None, tuple(boxes[number]), (image["width"], image["height"])))
    return drafts


class _ImageFinder:
    """Finds the image files of a split. Tries first the folder where it found the previous image."""

    def __init__(self, file: Path, split: str, root: Path) -> None:
        folders = [each for each in (root, root / "images") if each.is_dir()]
        named = [inner for each in folders for inner in folders_in(each) if split_name(inner.name) == split]
        self._tried = [str(place) for place in (file.parent, *named, *folders)]

    def find(self, name: Any) -> Path | None:
        for number, place in enumerate(self._tried):
            path = os.path.normpath(os.path.join(place, str(name)))  # noqa: PTH118 - faster than Path
            if os.path.isfile(path):  # noqa: PTH113
                self._tried.insert(0, self._tried.pop(number))
                return Path(path)
        return None
