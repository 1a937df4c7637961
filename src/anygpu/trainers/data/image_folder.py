"""Read image folders, where the class of an image is the name of its folder."""

from __future__ import annotations

from pathlib import Path

from anygpu.trainers.data.dataset import TRAIN, ItemDraft, LayoutContents
from anygpu.trainers.data.files import folders_in, has_images, images_below, split_name

NAME = "image-folder"


def looks_like(root: Path) -> bool:
    """Return whether `root` is an image folder: it, or the folder of a split, has a folder with images per class."""
    return any(has_images(each) or any(map(has_images, folders_in(each))) for each in folders_in(root))


def read(root: Path) -> LayoutContents:
    reading = LayoutContents(root, NAME)
    places = _splits(root)
    reading.classes = tuple(sorted({each.name for place in places.values() for each in folders_in(place)}))
    for split, place in places.items():
        reading.drafts[split] = _drafts(place, reading)
    _check_classes(places, reading)
    return reading


def _splits(root: Path) -> dict[str, Path]:
    folders = {split_name(each.name): each for each in folders_in(root)}
    folders.pop("", None)
    return folders or {TRAIN: root}


def _drafts(place: Path, reading: LayoutContents) -> list[ItemDraft]:
    drafts = []
    for folder in folders_in(place):
        images = images_below(folder, reading)
        if not images:
            reading.wrong(folder, f"class {folder.name!r} has no images; add some, or remove the folder")
        label = reading.classes.index(folder.name)
        drafts += [ItemDraft(image, label=label) for image in images]
    return drafts


def _check_classes(places: dict[str, Path], reading: LayoutContents) -> None:
    if len(reading.classes) < 2:
        named = ", ".join(reading.classes) or "none"
        reading.wrong(reading.root, f"an image folder needs at least two class folders; found: {named}")
    train_classes = (
        {each.name for each in folders_in(places[TRAIN])} if TRAIN in places else set(reading.classes)
    )
    for split, place in places.items():
        for folder in folders_in(place):
            if folder.name not in train_classes:
                reading.wrong(
                    folder,
                    f"class {folder.name!r} is in {split} but not in train; add its images to train, or remove it",
                )
