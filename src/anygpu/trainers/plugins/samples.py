"""Read a dataset (images, boxes, a table or an .npz file) as pairs of (input, target)."""

from __future__ import annotations

import hashlib
import importlib.util
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadDataset, Finding, MissingExtra

TABLES = (".csv", ".parquet")
PIXELS = 224  # default image size


@dataclass(frozen=True)
class PluginSamples:
    train: Sequence[tuple[Any, Any]]
    val: Sequence[tuple[Any, Any]]
    classes: tuple[str, ...]
    sha256: str


def read(dataset: Path, config: TrainingConfig) -> PluginSamples:
    if dataset.suffix == ".npz":
        return _arrays(dataset, config)
    if dataset.suffix in TABLES:
        return _table(dataset, config)
    return _images(dataset, config)


# -- images ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageSamples(Sequence[Any]):
    """Images as (channels, height, width) with values from 0 to 1, each with its class or its boxes."""

    items: Sequence[data.Item]
    pixels: int

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        item = self.items[index]
        return _pixels(item.image, self.pixels), _boxes(item) if item.label is None else item.label


def _images(dataset: Path, config: TrainingConfig) -> PluginSamples:
    for module in ("PIL", "numpy"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra("plugin", module, "data")
    loaded = data.load(dataset, val_fraction=config.val_fraction, seed=config.seed)
    pixels = config.image_size or PIXELS
    return PluginSamples(
        ImageSamples(loaded.splits["train"], pixels),
        ImageSamples(loaded.splits["val"], pixels),
        tuple(loaded.classes),
        loaded.sha256,
    )


def _pixels(path: Path, side: int) -> Any:
    import numpy
    from PIL import Image

    with Image.open(path) as image:
        scaled = image.convert("RGB").resize((side, side))
    return numpy.asarray(scaled, dtype="float32").transpose(2, 0, 1) / 255


def _boxes(item: data.Item) -> Mapping[str, Any]:
    """Return the boxes as x1, y1, x2, y2, relative to the image size, and their labels."""
    import numpy

    corners = [(b.x - b.w / 2, b.y - b.h / 2, b.x + b.w / 2, b.y + b.h / 2) for b in item.boxes]
    return {
        "boxes": numpy.asarray(corners, dtype="float32").reshape(-1, 4),
        "labels": numpy.asarray([box.class_index for box in item.boxes], dtype="int64"),
    }


# -- arrays and tables -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TableSamples(Sequence[Any]):
    inputs: Sequence[Any]
    targets: Sequence[Any]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        return self.inputs[index], self.targets[index]


def _arrays(path: Path, config: TrainingConfig) -> PluginSamples:
    """Read the samples of an .npz file.

    It has the arrays `x` and `y`, which are split here, or `x_train`, `y_train`, `x_val` and `y_val`. Arrays
    named `x_test` and `y_test` are used for validation if there is no `x_val`.
    """
    import numpy

    with numpy.load(path, allow_pickle=False) as file:
        arrays = {name.lower(): file[name] for name in file.files}
    if {"x_train", "y_train"} <= set(arrays):
        held = "val" if "x_val" in arrays else "test"
        train = TableSamples(arrays["x_train"], arrays["y_train"])
        val = _validation_samples(path, arrays, held)
    elif {"x", "y"} <= set(arrays):
        train, val = _split(arrays["x"], arrays["y"], config)
    else:
        raise BadDataset(
            [
                Finding(
                    path,
                    f"has the arrays {', '.join(arrays)}; save it with the arrays x and y, or x_train and y_train",
                )
            ]
        )
    return PluginSamples(train, val, _numbered_class_names([*train.targets, *val.targets]), _sha256(path))


def _validation_samples(path: Path, arrays: Mapping[str, Any], name: str) -> TableSamples:
    if not {f"x_{name}", f"y_{name}"} <= set(arrays):
        raise BadDataset(
            [Finding(path, "has x_train and y_train, but no x_val and y_val for validation; add them")]
        )
    return TableSamples(arrays[f"x_{name}"], arrays[f"y_{name}"])


def _table(path: Path, config: TrainingConfig) -> PluginSamples:
    """Read the samples of a table. The target column is the option `target`, otherwise the last column."""
    table = data.load_table(path, target=config.option("target", ""))
    target = config.option("target", "") or table.columns[-1]
    unknown = [line for line, value in enumerate(table.column(target), 2) if value is None]
    if unknown:
        raise BadDataset(
            [
                Finding(path, f"column {target!r} is empty; fill it, or remove the row", line)
                for line in unknown
            ]
        )
    rest = [name for name in table.columns if name != target]
    columns = [column for name in rest for column in _numbers(table.column(name))]
    targets, classes = _targets(table.column(target))
    train, val = _split(list(zip(*columns, strict=True)), targets, config)
    return PluginSamples(train, val, classes, table.sha256)


def _numbers(values: Sequence[Any]) -> Iterator[list[float]]:
    """Yield the input columns for one table column: numbers with 0 for missing values, or one-hot categories."""
    categories = sorted({value for value in values if isinstance(value, str)})
    if not categories:
        yield [0.0 if value is None else float(value) for value in values]
    for category in categories:
        yield [float(value == category) for value in values]


def _targets(values: Sequence[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """Return (targets, class names).

    Strings are classes, and so are the numbers 0, 1, 2 and so on without a gap. Otherwise the targets are
    numbers to predict, and there are no class names.
    """
    if any(isinstance(value, str) for value in values):
        classes = sorted({str(value) for value in values})
        return [classes.index(str(value)) for value in values], tuple(classes)
    named = _numbered_class_names(values)
    return [int(value) if named else float(value) for value in values], named


def _split(
    inputs: Sequence[Any], targets: Sequence[Any], config: TrainingConfig
) -> tuple[TableSamples, TableSamples]:
    order = random.Random(config.seed).sample(range(len(targets)), len(targets))
    held = set(order[: max(1, round(len(order) * config.val_fraction))])
    kept = [index for index in range(len(targets)) if index not in held]
    return _select(inputs, targets, kept), _select(inputs, targets, sorted(held))


def _select(inputs: Sequence[Any], targets: Sequence[Any], part: Sequence[int]) -> TableSamples:
    return TableSamples([inputs[at] for at in part], [targets[at] for at in part])


def _numbered_class_names(targets: Sequence[Any]) -> tuple[str, ...]:
    """Return "0", "1" and so on if the targets are exactly these whole numbers without a gap, otherwise ()."""
    seen = {float(each) for each in targets}
    if seen == {float(each) for each in range(len(seen))}:
        return tuple(str(each) for each in range(len(seen)))
    return ()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
