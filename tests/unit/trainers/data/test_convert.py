"""YOLO to COCO and back: what both can say comes back the same, within a millionth."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.unit.trainers.data.drawn import image_folder, png, write, yolo

from anygpu.trainers import data
from anygpu.trainers.data import Box, Dataset, Item
from anygpu.trainers.data.box_checks import bounding_box

NAMES = ("cat", 'dog "big"', "Käse: ja", "no", "7")
WITHIN = 1e-6

inside = some.floats(0, 1)
sizes = some.integers(1, 60)


@some.composite
def boxes(draw: some.DrawFn, kind: str) -> Box:
    index = draw(some.integers(0, len(NAMES) - 1))
    left, right = sorted(draw(some.lists(inside, min_size=2, max_size=2)))
    top, bottom = sorted(draw(some.lists(inside, min_size=2, max_size=2)))
    w, h = max(right - left, 1e-3), max(bottom - top, 1e-3)
    x, y = (left + right) / 2, (top + bottom) / 2
    if kind == "polygons":
        more = draw(some.lists(inside, min_size=2, max_size=12).filter(lambda flat: len(flat) % 2 == 0))
        polygon = (left, top, left + w, top, left, top + h, *more)
        return Box(index, *bounding_box(polygon), polygon=polygon)
    numbers = {"two": 2, "three": 3}.get(kind, 0)
    points = [
        draw(inside if place < 2 else some.sampled_from([0.0, 1.0, 2.0]))
        for _ in range(3)
        for place in range(numbers)
    ]
    return Box(index, x, y, w, h, keypoints=tuple(points))


@some.composite
def datasets(draw: some.DrawFn) -> Callable[[Path], Dataset]:
    kind = draw(some.sampled_from(["boxes", "polygons", "two", "three"]))
    shape = {"two": (3, 2), "three": (3, 3)}.get(kind)
    drawn = draw(
        some.lists(
            some.tuples(sizes, sizes, some.lists(boxes(kind), max_size=4, unique=True)),
            min_size=2,
            max_size=4,
        )
    )

    def made(root: Path) -> Dataset:
        items = tuple(_item(root, number, *each) for number, each in enumerate(drawn))
        splits = {"train": items[1:], "val": items[:1]}
        return Dataset(
            root=root, layout="yolo", classes=NAMES, splits=splits, sha256="", keypoint_shape=shape
        )

    return made


def _item(root: Path, number: int, width: int, height: int, found: list[Box]) -> Item:
    image = write(root / f"{number}.png", png(width, height, (number, 0, 0)))
    return Item(id=f"{number}.png", image=image, width=width, height=height, boxes=tuple(found))


def numbers(item: Item) -> list[float]:
    return [each for box in item.boxes for each in (*box[:5], *box.polygon, *box.keypoints)]


def assert_same(found: Dataset, expected: Dataset) -> None:
    assert (found.classes, found.keypoint_shape) == (expected.classes, expected.keypoint_shape)
    for split, items in expected.splits.items():
        assert [item.image.name for item in found.splits[split]] == [item.image.name for item in items]
        for one, other in zip(found.splits[split], items, strict=True):
            assert (one.width, one.height) == (other.width, other.height)
            assert [len(box.polygon) for box in one.boxes] == [len(box.polygon) for box in other.boxes]
            assert numbers(one) == pytest.approx(numbers(other), abs=WITHIN)


@settings(max_examples=20, deadline=None)
@given(datasets())
def test_there_and_back_again_nothing_is_lost(make: Callable[[Path], Dataset]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        first = make(root / "drawn")
        yolo_again = data.load(data.to_yolo(first, root / "yolo"))
        coco = data.load(data.to_coco(yolo_again, root / "coco"))
        back = data.load(data.to_yolo(coco, root / "back"))
        coco_again = data.load(data.to_coco(back, root / "again"))
        for found in (yolo_again, coco, back, coco_again):
            assert_same(found, first)


def test_images_are_the_same_files_and_not_copies(tmp_path: Path) -> None:
    first = data.load(yolo(tmp_path / "yolo", {"train/a": "0 .5 .5 .2 .2", "val/b": ""}))
    made = data.load(data.to_coco(first, tmp_path / "coco"))
    pairs = zip(first.splits["train"], made.splits["train"], strict=True)
    assert all(one.image.samefile(other.image) for one, other in pairs)


def test_a_box_beside_polygons_becomes_a_polygon_with_four_corners(tmp_path: Path) -> None:
    labels = {"train/a": "0 .5 .5 .2 .2\n1 .1 .1 .3 .1 .3 .3\n", "val/b": ""}
    made = data.load(data.to_yolo(data.load(yolo(tmp_path / "a", labels)), tmp_path / "b"), task="segment")
    first = made.splits["train"][0].boxes[0]
    assert first.polygon == pytest.approx((0.4, 0.4, 0.6, 0.4, 0.6, 0.6, 0.4, 0.6))
    assert first[1:5] == pytest.approx((0.5, 0.5, 0.2, 0.2))


def test_images_of_the_same_name_in_different_folders_keep_their_own_labels(tmp_path: Path) -> None:
    labels = {f"train/{place}/1": f"{index} .5 .5 .2 .2" for index, place in enumerate("ab")}
    first = data.load(yolo(tmp_path / "yolo", {**labels, "val/c": ""}))
    extra = replace(
        first.splits["train"][0],
        image=write(tmp_path / "x" / "a__1.png", png(8, 6, (9, 9, 9))),
        id="a__1.png",
    )
    crowded = replace(first, splits={**first.splits, "train": (*first.splits["train"], extra)})
    for made in (
        data.load(data.to_yolo(crowded, tmp_path / "y2")),
        data.load(data.to_coco(crowded, tmp_path / "c2")),
    ):
        assert sorted(box.class_index for item in made.splits["train"] for box in item.boxes) == [0, 0, 1]
        assert len({item.id for item in made.splits["train"]}) == 3


def test_coco_gets_areas_and_counts_of_keypoints(tmp_path: Path) -> None:
    label = "0 .5 .5 .5 .5 .25 .25 2 0 0 0"
    first = data.load(yolo(tmp_path / "a", {"train/a": label, "val/b": label}, more="kpt_shape: [2, 3]\n"))
    content = json.loads(
        (data.to_coco(first, tmp_path / "b") / "train" / "_annotations.coco.json").read_text()
    )
    [made] = content["annotations"]
    assert (made["area"], made["num_keypoints"], made["keypoints"]) == (12, 1, [2, 1.5, 2, 0, 0, 0])
    assert made["bbox"] == [2, 1.5, 4, 3]


def test_a_folder_that_is_not_empty_is_not_written_into(tmp_path: Path) -> None:
    first = data.load(yolo(tmp_path / "yolo", {"train/a": "", "train/c": "0 .5 .5 .2 .2", "val/b": ""}))
    write(tmp_path / "mine" / "thesis.txt", "precious")
    with pytest.raises(data.BadDataset, match="exists already and is not an empty folder"):
        data.to_coco(first, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_an_image_folder_has_no_boxes_to_convert_but_can_be_written_split(tmp_path: Path) -> None:
    first = data.load(image_folder(tmp_path / "pets", {"cat": 6, "dog": 6}))
    with pytest.raises(data.BadDataset, match="no boxes, so it cannot be converted"):
        data.to_yolo(first, tmp_path / "yolo")
    again = data.load(data.to_image_folder(first, tmp_path / "split"))
    assert again.has_own_split
    for split in ("train", "val"):
        assert {item.sha256 for item in again.splits[split]} == {item.sha256 for item in first.splits[split]}
