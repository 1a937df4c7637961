"""Whatever is in the files, the answer is a dataset or findings a person can read."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as some
from tests.unit.trainers.data.drawn import png, write, yolo

from anygpu.trainers import data

few = settings(max_examples=25, deadline=None)
scalars = some.none() | some.booleans() | some.integers(-2, 9) | some.floats() | some.text(max_size=4)
values = some.recursive(
    scalars,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
KEYS = ("path", "train", "val", "test", "names", "nc", "kpt_shape")
PARTS = {
    "images": ("id", "file_name", "width", "height"),
    "categories": ("id", "name", "supercategory", "keypoints"),
    "annotations": ("id", "image_id", "category_id", "bbox", "segmentation", "keypoints", "iscrowd"),
}


def records(keys: tuple[str, ...]) -> Any:
    return some.lists(
        some.dictionaries(some.sampled_from(keys), values, max_size=len(keys)) | scalars, max_size=3
    )


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def assert_understood(path: Path) -> None:
    said = found_or_said(path)
    assert said
    assert said.encode()


def found_or_said(path: Path) -> str:
    try:
        return data.load(path).sha256
    except data.BadDataset as error:
        return str(error)


@few
@given(some.dictionaries(some.sampled_from(KEYS), values | some.just("images/train") | some.just("..")))
@example({"names": {"a": 1}, "train": "images/train"})
@example({"names": [[1]], "train": "images/train"})
@example({"names": ["a"], "train": {"a": "images"}})
@example({"names": ["a"], "train": "\0"})
@example({"names": ["a"], "train": "a" * 5_000})
def test_any_data_yaml_is_understood_or_refused(config: dict[str, Any]) -> None:
    with folder() as root:
        yolo(root, {"train/a": "0 .5 .5 .2 .2", "val/b": ""})
        write(root / "data.yaml", json.dumps({"names": ["a"], **config}))
        assert_understood(root)


@few
@given(some.binary(max_size=60) | some.text("0123456789.-e nai\n\t", max_size=60).map(str.encode))
def test_any_label_file_is_understood_or_refused(content: bytes) -> None:
    with folder() as root:
        yolo(root, {"train/a": "0 .5 .5 .2 .2", "train/b": "", "val/b": ""})
        write(root / "labels/train/b.txt", content)
        assert_understood(root)


@few
@given(some.fixed_dictionaries({part: records(keys) | scalars for part, keys in PARTS.items()}))
def test_any_coco_file_is_understood_or_refused(content: dict[str, Any]) -> None:
    with folder() as root:
        write(root / "train" / "a.png", png())
        whole = {
            "images": [{"id": 1, "file_name": "a.png", "width": 8, "height": 6}],
            "categories": [{"id": 1, "name": "a"}],
        }
        for part in (None, *PARTS):
            mixed = content if part is None else {"annotations": [], **whole, part: content[part]}
            write(root / "train" / "_annotations.coco.json", json.dumps(mixed))
            assert_understood(root)


@few
@given(some.integers(0, 400), some.binary(min_size=1, max_size=4))
def test_any_image_is_understood_or_refused(at: int, changed: bytes) -> None:
    with folder() as root:
        yolo(root, {"train/a": "0 .5 .5 .2 .2", "val/b": ""})
        content = png(20, 20)
        write(root / "images/train/a.png", content[:at] + changed + content[at + len(changed) :])
        assert_understood(root)
