"""List the files of a dataset. Links that point outside the dataset are not followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from anygpu.trainers.data.dataset import LayoutContents
from anygpu.trainers.data.image_files import SUFFIXES
from anygpu.trainers.errors import BadDataset, Finding

_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}


def split_name(folder: str) -> str:
    """Return the split that a folder name means (`train2017`: train, `valid`: val), or an empty string."""
    return _SPLITS.get(folder.lower().rstrip("0123456789"), "")


def images_below(folder: Path, reading: LayoutContents) -> list[Path]:
    return [path for path in files_below(folder, reading) if path.suffix.lower() in SUFFIXES]


def files_below(folder: Path, reading: LayoutContents) -> list[Path]:
    """Return all files below a folder, sorted by name, without hidden files.

    A symbolic link that points outside the dataset is skipped and added as a problem to the result `reading`.
    """
    files: list[Path] = []
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        reading.wrong(folder, f"the folder cannot be read: {error.strerror}")
        return files
    for entry in entries:
        if entry.name.startswith((".", "__MACOSX")) or not _is_usable(entry, reading):
            continue
        if entry.is_dir(follow_symlinks=False):
            files += files_below(Path(entry.path), reading)
        else:
            files.append(Path(entry.path))
    return files


def _is_usable(entry: os.DirEntry[str], reading: LayoutContents) -> bool:
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
        reading.wrong(Path(shown), "the file's name is not UTF-8; rename it")
        return False
    return not entry.is_symlink() or is_within(Path(entry.path), reading)


def is_within(path: Path, reading: LayoutContents) -> bool:
    """Return whether a path, with links resolved, is in the dataset; if not, add a problem to the result `reading`."""
    resolved = _resolve(path, reading)
    if resolved.is_relative_to(reading.root):
        if path.is_symlink() and path.is_dir():
            reading.wrong(path, "is a link to a folder; put the folder itself here")
            return False
        return True
    reading.wrong(path, f"leads outside the dataset, to {resolved}; put the file itself into the dataset")
    return False


def _resolve(path: Path, reading: LayoutContents) -> Path:
    """Return a path with links resolved. The result is cached per folder, because few folders hold all images."""
    if path.is_symlink() or path.is_dir():
        return Path(os.path.realpath(path))  # unlike Path.resolve, accepts a link to itself
    folder = path.parent
    if folder not in reading.resolved:
        reading.resolved[folder] = Path(os.path.realpath(folder))
    return reading.resolved[folder] / path.name


def folders_in(folder: Path) -> list[Path]:
    """List the direct subfolders, sorted by name, without hidden ones."""
    with os.scandir(folder) as listed:
        names = [entry.name for entry in listed if entry.is_dir()]
    return [folder / name for name in sorted(names) if not name.startswith((".", "__MACOSX"))]


def has_images(folder: Path) -> bool:
    """Return whether the folder contains an image itself, not only in subfolders."""
    with os.scandir(folder) as listed:
        return any(os.path.splitext(entry.name)[1].lower() in SUFFIXES for entry in listed)  # noqa: PTH122


def text_of(path: Path) -> str:
    """Read a text file; raise BadDataset if it cannot be read or is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadDataset(
            [
                Finding(
                    path, f"cannot be read: {error.strerror}; check the path and the permissions of the file"
                )
            ]
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadDataset([Finding(path, "is not UTF-8; save it as UTF-8", line)]) from None


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line) of the non-empty lines of a text file."""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        if line.strip():
            yield number, line.strip()
