"""Load a dataset: detect its layout, check it, and split it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anygpu.trainers.data import coco, image_folder, yolo
from anygpu.trainers.data.archives import is_archive, open_dataset
from anygpu.trainers.data.box_checks import check_task
from anygpu.trainers.data.dataset import TRAIN, VAL, Dataset, Item, ItemDraft, LayoutContents
from anygpu.trainers.data.image_files import BadImage, ImageInfo, inspect_images
from anygpu.trainers.data.split import split_items
from anygpu.trainers.errors import BadDataset, Finding

ACCEPTED = (
    "contains no dataset in a known format; give one in the format of YOLO (data.yaml, or images/ "
    "and labels/), COCO (annotations/*.json) or image folders (train/<class>/x.jpg)"
)


def load(
    path: str | os.PathLike[str],
    *,
    task: str = "",
    val_fraction: float = 0.2,
    seed: int = 0,
    decode: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Read and check a dataset: a folder, an archive, a data.yaml or a COCO file.

    Raise one BadDataset that lists every problem.
    `val_fraction`: fraction of the images used for validation if the dataset has no validation split.
    `decode`: also decode every image to find damaged ones, if Pillow is installed.
    `cache_dir`: folder into which archives are unpacked; None: `~/.cache/anygpu/datasets`.
    """
    given = Path(path)
    folder_or_file = open_dataset(given, cache_dir)
    try:
        return _load(folder_or_file, task, val_fraction, seed, decode)
    except OSError as error:
        raise BadDataset(
            [
                Finding(
                    Path(error.filename or given),
                    f"cannot be read: {error.strerror}; check the path and the permissions of the file",
                )
            ]
        ) from None
    except BadDataset as error:
        if not is_archive(given):
            raise
        raise BadDataset([_within(each, folder_or_file, given) for each in error.findings]) from None


def _load(path: Path, task: str, val_fraction: float, seed: int, decode: bool) -> Dataset:
    reading = read(path, task)
    check_task(reading, task)
    items = _items(reading, decode)
    _check_splits(reading, items)
    splits = _split(items, val_fraction, seed)
    if not reading.findings and not splits.get(VAL):
        reading.wrong(
            reading.root, "one image cannot be split into train and val; add images, or provide both splits"
        )
    if reading.findings:
        raise BadDataset(sorted(reading.findings, key=lambda each: (str(each.path), each.line or 0)))
    return _dataset(reading, splits)


def _within(finding: Finding, folder: Path, archive: Path) -> Finding:
    """Return the problem with a path that the user knows: inside the archive instead of in the cache."""
    root = folder.resolve()
    if not finding.path.is_relative_to(root):
        return finding
    return replace(finding, path=archive / finding.path.relative_to(root))


def read(path: Path, task: str = "") -> LayoutContents:
    """Detect the layout of a dataset and read its annotations. Image files are listed but not opened."""
    if not path.exists():
        raise BadDataset([Finding(path, "does not exist; check the path of the dataset")])
    root = path.resolve()
    if root.is_dir():
        return _read_folder(root, task)
    if root.suffix in (".yaml", ".yml"):
        return yolo.read_file(root)
    if root.suffix == ".json":
        return coco.read_file(root)
    raise BadDataset([Finding(path, "is not a folder, archive, .yaml or .json file; " + ACCEPTED)])


def _read_folder(root: Path, task: str) -> LayoutContents:
    if yolo.config_in(root) is not None:
        return yolo.read(root)
    if coco.looks_like(root):
        return coco.read(root, task)
    if yolo.looks_like(root):
        return yolo.read(root)
    if image_folder.looks_like(root):
        return image_folder.read(root)
    raise BadDataset([Finding(root, ACCEPTED)])


def _items(reading: LayoutContents, decode: bool) -> dict[str, list[Item]]:
    paths = list(dict.fromkeys(draft.image for drafts in reading.drafts.values() for draft in drafts))
    pictures = inspect_images(paths, decode=decode)
    for path, picture in pictures.items():
        if isinstance(picture, BadImage):
            reading.wrong(path, str(picture))
    return {split: list(_whole(drafts, pictures, reading)) for split, drafts in reading.drafts.items()}


def _whole(
    drafts: Sequence[ItemDraft], pictures: Mapping[Path, ImageInfo | BadImage], reading: LayoutContents
) -> Iterator[Item]:
    for draft in drafts:
        picture = pictures[draft.image]
        if isinstance(picture, ImageInfo):
            width, height = _size(draft, picture, reading)
            yield Item(
                id=_id(draft.image, reading.root),
                image=draft.image,
                width=width,
                height=height,
                label=draft.label,
                boxes=draft.boxes,
                sha256=picture.sha256,
            )


def _size(draft: ItemDraft, picture: ImageInfo, reading: LayoutContents) -> tuple[int, int]:
    """Return width and height of an image: as the annotations state them, otherwise those of the image file.

    Boxes refer to the stated size. It may have width and height swapped, because cameras store images rotated.
    """
    real, stated = (picture.width, picture.height), draft.stated_size
    if stated is not None and sorted(stated) != sorted(real):
        what = (
            f"the annotations say {stated[0]} by {stated[1]} pixels, but the image is {real[0]} by {real[1]}"
        )
        reading.wrong(draft.image, what)
    return stated or real


def _id(image: Path, root: Path) -> str:
    return os.path.relpath(image, root).replace(os.sep, "/")


def _check_splits(reading: LayoutContents, items: Mapping[str, Sequence[Item]]) -> None:
    for split, drafts in reading.drafts.items():
        if not drafts and split not in reading.lost:
            reading.wrong(reading.root, f"the split {split!r} is empty: there is no image in it")
    if TRAIN not in reading.drafts and not reading.findings:
        reading.wrong(reading.root, "there is no train split; add a folder train, or set train in data.yaml")
    if not reading.classes and not reading.findings:
        reading.wrong(
            reading.root,
            "the dataset defines no classes; list them in data.yaml, the COCO categories or class folders",
        )
    seen: dict[str, str] = {}
    twice = 0
    for split, part in items.items():
        twice += sum(seen.setdefault(item.sha256, split) != split for item in part)
    if twice:
        reading.note(
            reading.root,
            f"{twice:,} images are in more than one split, so the validation metrics will be too good",
        )


def _split(items: dict[str, list[Item]], val_fraction: float, seed: int) -> dict[str, tuple[Item, ...]]:
    given = {split: tuple(part) for split, part in items.items()}
    if VAL in given or TRAIN not in given:
        return given
    return {**split_items(given[TRAIN], val_fraction=val_fraction, seed=seed), **_without_train(given)}


def _without_train(given: Mapping[str, tuple[Item, ...]]) -> dict[str, tuple[Item, ...]]:
    return {split: part for split, part in given.items() if split != TRAIN}


def _dataset(reading: LayoutContents, splits: Mapping[str, tuple[Item, ...]]) -> Dataset:
    return Dataset(
        root=reading.root,
        layout=reading.layout,
        classes=reading.classes,
        splits=splits,
        sha256=_sha256(reading, splits),
        keypoint_shape=reading.keypoint_shape,
        has_own_split=VAL in reading.drafts,
        notes=tuple(reading.notes),
    )


def _sha256(reading: LayoutContents, splits: Mapping[str, Sequence[Item]]) -> str:
    """Return a hash of the dataset that does not depend on its folder or on the order of its files."""
    digest = hashlib.sha256(repr((reading.classes, reading.keypoint_shape)).encode())
    for split in sorted(splits):
        digest.update(repr(split).encode())
        for item in sorted(splits[split], key=lambda each: each.id):
            digest.update(repr((item.id, item.sha256, item.label, tuple(map(tuple, item.boxes)))).encode())
    return digest.hexdigest()
