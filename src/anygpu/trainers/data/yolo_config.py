"""Read data.yaml as Ultralytics does: the folders of the splits and the class names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers.data.dataset import LayoutContents
from anygpu.trainers.data.files import text_of
from anygpu.trainers.errors import BadDataset, Finding

SPLIT_KEYS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True, kw_only=True)
class YoloDataConfig:
    file: Path
    values: Mapping[str, Any]
    text: str

    def line_of(self, key: str) -> int | None:
        lines = enumerate(self.text.splitlines(), 1)
        return next((number for number, line in lines if line.lstrip("'\" ").startswith(key)), None)

    @property
    def folder(self) -> Path:
        """The folder that relative paths refer to: `path` if it exists, otherwise the folder of data.yaml."""
        named = self.values.get("path")
        place = (self.file.parent / str(named)) if named else self.file.parent
        return (place if exists(place) and place.is_dir() else self.file.parent).resolve()

    @property
    def splits(self) -> dict[str, list[str]]:
        given = {name: self.values[key] for key, name in SPLIT_KEYS.items() if self.values.get(key)}
        return {
            name: [str(each) for each in (value if isinstance(value, list) else [value])]
            for name, value in given.items()
        }


def exists(path: Path) -> bool:
    """Return whether the path exists; False for names that the file system does not allow."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def load_config(file: Path) -> YoloDataConfig:
    """Load a data.yaml; raise BadDataset if it is missing or not a YAML mapping."""
    if not file.is_file():
        raise BadDataset(
            [
                Finding(
                    file,
                    "data.yaml is missing; it has to name the image folders (train, val) and the classes (names)",
                )
            ]
        )
    text = text_of(file)
    values = _parse(file, text)
    if not isinstance(values, dict):
        raise BadDataset(
            [Finding(file, "is not a YAML mapping; write one with the keys train, val and names")]
        )
    return YoloDataConfig(file=file, values=values, text=text)


def _parse(file: Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise BadDataset([Finding(file, "reading it needs PyYAML: pip install pyyaml")]) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = str(getattr(error, "problem", None) or error)
        raise BadDataset(
            [Finding(file, f"is not valid YAML: {what}; correct this line", mark.line + 1 if mark else None)]
        ) from None


def read_names(config: YoloDataConfig, reading: LayoutContents) -> tuple[str, ...]:
    """Return the class names from `names` in data.yaml: a list, or a mapping with keys 0, 1, 2 and so on.

    If data.yaml has only `nc`, the number of classes, return class_0, class_1 and so on.
    """
    names, count = config.values.get("names"), config.values.get("nc")
    if names is None and isinstance(count, int) and count > 0:
        return tuple(f"class_{index}" for index in range(count))
    class_names = _names(config, names, reading)
    if class_names and count is not None and count != len(class_names):
        what = f"nc is {count!r}, but there are {len(class_names)} names; correct one of them"
        reading.wrong(config.file, what, config.line_of("nc"))
    return class_names


def _names(config: YoloDataConfig, names: Any, reading: LayoutContents) -> tuple[str, ...]:
    wrong = _problems(names)
    if wrong:
        reading.wrong(config.file, wrong, config.line_of("names"))
        return ()
    return tuple(
        str(name) for name in (names if isinstance(names, list) else [names[i] for i in range(len(names))])
    )


def _problems(names: Any) -> str:
    if names is None:
        return "names is missing; list the class names there, as [cat, dog] or as {0: cat, 1: dog}"
    if not isinstance(names, list | dict) or not names:
        return "names has to be a list of class names, or a mapping with the keys 0, 1, 2, ..."
    if isinstance(names, dict) and set(names) != set(range(len(names))):
        return f"the keys of names have to be 0 to {len(names) - 1} without a gap"
    values = list(names.values()) if isinstance(names, dict) else names
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return f"the class name {value!r} has to be text; put it in quotes"
        if not str(value).strip() or not str(value).isprintable():
            return (
                f"the class name {value!r} is empty or contains characters that cannot be printed; rename it"
            )
    twice = next((value for value in values if values.count(value) > 1), None)
    return f"two classes are called {twice!r}; rename one" if twice is not None else ""


def read_keypoint_shape(config: YoloDataConfig, reading: LayoutContents) -> tuple[int, int] | None:
    shape = config.values.get("kpt_shape")
    if shape is None:
        return None
    match shape:
        case [int(count), int(numbers)] if count > 0 and numbers in (2, 3):
            return count, numbers
    what = f"kpt_shape has to be [number of keypoints, 2 or 3], not {shape!r}"
    reading.wrong(config.file, what, config.line_of("kpt_shape"))
    return None
