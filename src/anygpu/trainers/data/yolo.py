"""Read YOLO datasets: with a data.yaml in the format of Ultralytics, or with only images/ and labels/."""

from __future__ import annotations

import os
from pathlib import Path

from anygpu.trainers.data.dataset import TRAIN, ItemDraft, LayoutContents
from anygpu.trainers.data.files import files_below, folders_in, images_below, is_within, lines_of, split_name
from anygpu.trainers.data.image_files import SUFFIXES
from anygpu.trainers.data.yolo_config import (
    YoloDataConfig,
    exists,
    load_config,
    read_keypoint_shape,
    read_names,
)
from anygpu.trainers.data.yolo_labels import read_boxes
from anygpu.trainers.errors import BadDataset

NAME = "yolo"
CONFIGS = ("data.yaml", "data.yml", "dataset.yaml", "dataset.yml")
CLASS_FILES = (
    "classes.txt",
    "obj.names",
    "labels/classes.txt",
    "train/labels/classes.txt",
    "labels/train/classes.txt",
)
NO_LABELS = frozenset(
    {"classes.txt", "train.txt", "val.txt", "valid.txt", "test.txt", "readme.txt", "notes.txt"}
)


def config_in(root: Path) -> Path | None:
    """Return the path of the dataset's data.yaml, or of another YAML file with class names; None if none exists."""
    for name in CONFIGS:
        if (root / name).is_file():
            return root / name
    others = sorted(path for path in root.glob("*.y*ml") if path.is_file())
    return next((path for path in others if "names:" in path.read_text(errors="replace")), None)


def looks_like(root: Path) -> bool:
    return config_in(root) is not None or bool(_plain_splits(root))


def read(root: Path) -> LayoutContents:
    file = config_in(root)
    return _read_configured(load_config(file), root.resolve()) if file else _read_plain(root.resolve())


def read_file(file: Path) -> LayoutContents:
    """Read the dataset that a data.yaml describes. Its `path` entry may name a folder elsewhere."""
    config = load_config(file)
    return _read_configured(config, config.folder)


def _read_configured(config: YoloDataConfig, root: Path) -> LayoutContents:
    reading = LayoutContents(root, NAME)
    reading.classes = read_names(config, reading)
    reading.keypoint_shape = read_keypoint_shape(config, reading)
    if not config.splits:
        reading.wrong(config.file, "train is missing; set it to the folder with the training images")
    images = {
        split: [path for place in places for path in _images_at(place, reading, config)]
        for split, written in config.splits.items()
        if (places := _places(split, written, config, reading))
    }
    _read_labels(images, reading, len(reading.classes) or None)
    return reading


def _places(split: str, written: list[str], config: YoloDataConfig, reading: LayoutContents) -> list[Path]:
    paths = {each: _find_image(each, config) for each in written}
    for each, place in paths.items():
        if place is None:
            reading.wrong(config.file, f"{split}: {each} does not exist", config.line_of(split))
    return [place for place in paths.values() if place is not None and is_within(place, reading)]


def _images_at(place: Path, reading: LayoutContents, config: YoloDataConfig) -> list[Path]:
    return images_below(place, reading) if place.is_dir() else _images_in_list(place, config, reading)


def _find_image(written: str, config: YoloDataConfig) -> Path | None:
    """Return the absolute path of an image folder or list that data.yaml names, or None if it does not exist.

    `written` is relative to `path` in data.yaml, or to the folder of data.yaml. If neither exists, it is tried
    without a leading `../`, as Ultralytics does.
    """
    shorter = written.removeprefix("../")
    tried = (
        base / each for each in (written, shorter) for base in (config.folder, config.file.parent.resolve())
    )
    existing = next((path for path in tried if exists(path)), None)
    return None if existing is None else Path(os.path.normpath(existing))


def _images_in_list(file: Path, config: YoloDataConfig, reading: LayoutContents) -> list[Path]:
    """Return the images that a text file lists, one path per line."""
    images = []
    try:
        for number, line in lines_of(file):
            base = file.parent if line.startswith("./") else config.folder
            path = Path(os.path.normpath(base / line))
            if not exists(path) or not path.is_file():
                reading.wrong(file, f"the image {line} does not exist", number)
            elif is_within(path, reading):
                images.append(path)
    except BadDataset as error:
        reading.findings += error.findings
    return images


def _read_plain(root: Path) -> LayoutContents:
    reading = LayoutContents(root, NAME)
    images = {split: images_below(place, reading) for split, place in _plain_splits(root).items()}
    named = next((root / name for name in CLASS_FILES if (root / name).is_file()), None)
    reading.classes = tuple(line for _, line in lines_of(named)) if named else ()
    _read_labels(images, reading, len(reading.classes) or None)
    if not named:
        _number_classes(reading)
    return reading


def _plain_splits(root: Path) -> dict[str, Path]:
    """Return the image folder of each split, for a dataset without data.yaml.

    Layouts: images/train and labels/train; train/images and train/labels; images/ and labels/ only.
    """
    images = root / "images"
    if images.is_dir() and (root / "labels").is_dir():
        named = {split_name(each.name): each for each in folders_in(images)}
        named.pop("", None)
        return named or {TRAIN: images}
    inner = {
        split_name(each.name): each / "images" for each in folders_in(root) if (each / "images").is_dir()
    }
    inner.pop("", None)
    return inner


def _number_classes(reading: LayoutContents) -> None:
    seen = [box.class_index for drafts in reading.drafts.values() for draft in drafts for box in draft.boxes]
    reading.classes = tuple(str(index) for index in range(max(seen, default=-1) + 1))
    reading.note(
        reading.root, "there is no data.yaml and no classes.txt, so the classes are called 0, 1, 2, ..."
    )


def _read_labels(images: dict[str, list[Path]], reading: LayoutContents, classes: int | None) -> None:
    for split, paths in images.items():
        labels = {path: _label_of(path) for path in paths}
        reading.drafts[split] = [_draft(path, label, reading, classes) for path, label in labels.items()]
        unlabelled = sum(not label.is_file() for label in labels.values())
        if paths and unlabelled == len(labels):
            reading.wrong(
                labels[paths[0]],
                f"no image of {split} has a label file; put the labels into files like this one",
            )
        elif unlabelled:
            reading.note(
                paths[0].parent,
                f"{unlabelled:,} images of {split} have no label file and count as images without objects",
            )
        _check_stray_labels(labels, reading)


def _draft(image: Path, label: Path, reading: LayoutContents, classes: int | None) -> ItemDraft:
    usable = label.is_file() and (not label.is_symlink() or is_within(label, reading))
    return ItemDraft(image, boxes=read_boxes(label, reading, classes) if usable else ())


def _label_of(image: Path) -> Path:
    """Return the path of an image's label file.

    In the image's path, the last folder named `images` is replaced by `labels`. If no folder has this name,
    the label file is next to the image.
    """
    head, separator, tail = str(image).rpartition(f"{os.sep}images{os.sep}")
    place = f"{head}{os.sep}labels{os.sep}{tail}" if separator else str(image)
    return Path(os.path.splitext(place)[0] + ".txt")  # noqa: PTH122 - much faster than Path


def _check_stray_labels(labels: dict[Path, Path], reading: LayoutContents) -> None:
    """Add a problem to the result `reading` for each label file without an image."""
    expected = set(labels.values())
    folders = {label.parent for label in expected if label.parent.is_dir()}
    for label in sorted({path for folder in folders for path in files_below(folder, reading)} - expected):
        if label.suffix == ".txt" and label.name.lower() not in NO_LABELS and not _has_image(label):
            reading.wrong(label, "this label file has no image; add the image, or remove the file")


def _has_image(label: Path) -> bool:
    head, separator, tail = str(label.with_suffix("")).rpartition(f"{os.sep}labels{os.sep}")
    stem = f"{head}{os.sep}images{os.sep}{tail}" if separator else str(label.with_suffix(""))
    return any(Path(stem + suffix).is_file() for suffix in (*SUFFIXES, *map(str.upper, SUFFIXES)))
