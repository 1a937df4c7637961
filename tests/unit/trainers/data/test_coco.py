"""COCO datasets in the shapes they are found in, and everything that can be wrong with one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainers.data.drawn import png, write

from anygpu.trainers import data
from anygpu.trainers.data import Box
from anygpu.trainers.data.coco_annotations import merge_polygons

WIDTH, HEIGHT = 20, 10


def annotation(number: int = 1, image: int = 1, category: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "image_id": image,
        "category_id": category,
        "bbox": [2, 1, 10, 5],
        "iscrowd": 0,
    } | more


def content(name: str = "a.png", annotations: Any = None, **more: Any) -> dict[str, Any]:
    return {
        "images": [{"id": 1, "file_name": name, "width": WIDTH, "height": HEIGHT}],
        "annotations": [annotation()] if annotations is None else annotations,
        "categories": [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}],
    } | more


def exported(root: Path, train: dict[str, Any] | None = None) -> Path:
    """Each split in a folder of its own, annotations beside the images."""
    for number, split in enumerate(("train", "valid")):
        write(root / split / "a.png", png(WIDTH, HEIGHT, (number, 0, 0)))
        chosen = train if train is not None and split == "train" else content()
        write(root / split / "_annotations.coco.json", json.dumps(chosen))
    return root


def findings(path: Path, task: str = "") -> list[str]:
    with pytest.raises(data.BadDataset) as caught:
        data.load(path, task=task)
    return [f"{each.path.relative_to(path.resolve())}: {each.what}" for each in caught.value.findings]


def test_boxes_become_fractions_and_categories_are_numbered_in_order_of_their_ids(tmp_path: Path) -> None:
    found = data.load(exported(tmp_path))
    assert (found.layout, found.classes, list(found.splits)) == ("coco", ("cat", "dog"), ["train", "val"])
    item = found.splits["train"][0]
    assert (item.id, item.width, item.height) == ("train/a.png", WIDTH, HEIGHT)
    assert item.boxes == (Box(0, 0.35, 0.35, 0.5, 0.5),)


@pytest.mark.parametrize("images", ["train2017", "images/train2017", "images", "."])
def test_images_are_found_where_coco_users_put_them(tmp_path: Path, images: str) -> None:
    for split in ("train", "val"):
        place = images.replace("train", split)
        write(tmp_path / place / f"{split}.png", png(WIDTH, HEIGHT, (len(split), 0, 0)))
        text = json.dumps(content(f"{split}.png"))
        write(tmp_path / "annotations" / f"instances_{split}2017.json", text)
        write(tmp_path / "annotations" / f"captions_{split}2017.json", text)
        write(tmp_path / "annotations" / f"person_keypoints_{split}2017.json", text)
    found = data.load(tmp_path)
    assert [item.image.name for item in found.items] == ["train.png", "val.png"]


def test_one_file_for_everything_is_split(tmp_path: Path) -> None:
    images = [{"id": n, "file_name": f"{n}.png", "width": WIDTH, "height": HEIGHT} for n in range(8)]
    for number in range(8):
        write(tmp_path / "images" / f"{number}.png", png(WIDTH, HEIGHT, (number, 0, 0)))
    annotations = [annotation(number, number) for number in range(8)]
    file = write(tmp_path / "annotations.json", json.dumps(content(annotations=annotations, images=images)))
    for found in (data.load(tmp_path), data.load(file)):
        assert sum(map(len, found.splits.values())) == 8
        assert found.splits["val"]
        assert not found.has_own_split


def test_masks_and_keypoints_are_read(tmp_path: Path) -> None:
    points: dict[str, Any] = {"keypoints": [2, 1, 2, 0, 0, 0], "segmentation": [[2, 1, 12, 1, 12, 6]]}
    named = [{"id": 3, "name": "cat", "keypoints": ["nose", "tail"]}]
    train = content(annotations=[annotation(**points), annotation(2)], categories=named)
    found = data.load(exported(tmp_path, train))
    assert found.keypoint_shape == (2, 3)
    first, second = found.splits["train"][0].boxes
    assert first.polygon == pytest.approx((0.1, 0.1, 0.6, 0.1, 0.6, 0.6))
    assert first.keypoints == pytest.approx((0.1, 0.1, 2, 0, 0, 0))
    assert second.keypoints == (0,) * 6


def test_a_mask_in_parts_becomes_one_polygon_of_the_same_area() -> None:
    square, other = (0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0), (2.0, 0.0, 3.0, 0.0, 3.0, 1.0, 2.0, 1.0)
    flat = merge_polygons([square, other])
    points = list(zip(flat[0::2], flat[1::2], strict=True))
    after = [*points[1:], points[0]]
    area = abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, after, strict=True))) / 2
    assert area == pytest.approx(2)
    assert set(points) == {(0, 0), (1, 0), (1, 1), (0, 1), (2, 0), (3, 0), (3, 1), (2, 1)}


def test_a_category_that_only_groups_others_is_no_class(tmp_path: Path) -> None:
    named = [
        {"id": 0, "name": "animals", "supercategory": "none"},
        {"id": 3, "name": "cat", "supercategory": "animals"},
        {"id": 7, "name": "dog", "supercategory": "animals"},
    ]
    assert data.load(exported(tmp_path, content(categories=named))).classes == ("cat", "dog")


def test_crowds_and_run_lengths_are_left_out_and_noted(tmp_path: Path) -> None:
    rle = {"counts": "abc", "size": [HEIGHT, WIDTH]}
    train = content(annotations=[annotation(1, iscrowd=1, segmentation=rle), annotation(2, segmentation=rle)])
    found = data.load(exported(tmp_path, train))
    assert [box.polygon for box in found.splits["train"][0].boxes] == [()]
    notes = " ".join(each.what for each in found.notes)
    assert "1 crowd annotations (iscrowd) are ignored" in notes
    assert "run-length encoded masks (RLE) are not supported" in notes


@pytest.mark.parametrize(
    ("annotations", "what"),
    [
        ([annotation(1), annotation(1)], "annotation 1: another annotation has the same id"),
        ([annotation(category=9)], "annotation 1: unknown category_id 9; the categories are 3, 7"),
        ([annotation(image=5)], "annotation 1: image_id is 5, but no valid entry of images has this id"),
        ([annotation(bbox=[1, 2, 3])], "annotation 1: bbox has to be four numbers"),
        ([annotation(bbox=[1, 2, True, 3])], "annotation 1: bbox has to be four numbers"),
        ([annotation(bbox=[1, 2, 0, 4])], "annotation 1 of a.png: the box has no size"),
        ([annotation(bbox=[15, 2, 10, 4])], "annotation 1 of a.png: the box is outside the image"),
        (
            [annotation(segmentation=[[1, 2, 3]])],
            "annotation 1: segmentation has to be lists of three or more",
        ),
        (["text"], "annotations[0]: has to be a JSON object"),
    ],
)
def test_a_wrong_annotation_is_named_by_its_id(tmp_path: Path, annotations: list[Any], what: str) -> None:
    [found] = findings(exported(tmp_path, content(annotations=annotations)))
    assert found.startswith(f"train/_annotations.coco.json: {what}")


IMAGE = {"id": 1, "file_name": "a.png", "width": WIDTH, "height": HEIGHT}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"images": [IMAGE, IMAGE]}, "train/_annotations.coco.json: two images have the id 1"),
        (
            {"images": [{"id": "1", "file_name": "a.png"}]},
            "train/_annotations.coco.json: images[0] needs an id",
        ),
        (
            {"images": [IMAGE | {"width": 0}]},
            "train/_annotations.coco.json: image 1 (a.png): width and height",
        ),
        (
            {"images": [IMAGE | {"height": 11}]},
            "train/a.png: the annotations say 20 by 11 pixels, but the image is 20 by 10",
        ),
        (
            {"images": [IMAGE | {"file_name": "b.png"}]},
            "train/_annotations.coco.json: the image b.png (id 1) does not",
        ),
        ({"images": None}, "train/_annotations.coco.json: is not a COCO file: it has no list 'images'"),
        (
            {"categories": [{"id": 3, "name": "cow"}]},
            "valid/_annotations.coco.json: category 3 is 'cat' here but 'cow'",
        ),
        (
            {"categories": [{"id": 3, "name": "cat"}] * 2},
            "train/_annotations.coco.json: two categories have the id 3",
        ),
    ],
)
def test_wrong_images_and_categories_are_named(tmp_path: Path, changed: dict[str, Any], what: str) -> None:
    assert findings(exported(tmp_path, content() | changed))[0].startswith(what)


def test_two_categories_of_one_name_are_refused(tmp_path: Path) -> None:
    named = [{"id": 3, "name": "cat"}, {"id": 7, "name": "cat"}]
    root = exported(tmp_path, content(categories=named))
    write(root / "valid" / "_annotations.coco.json", json.dumps(content(categories=named)))
    assert findings(root) == [".: 2 categories are called 'cat'; give each a different name"]


def test_a_dataset_without_a_class_teaches_nothing(tmp_path: Path) -> None:
    nothing = content(annotations=[], categories=[])
    root = exported(tmp_path, nothing)
    write(root / "valid" / "_annotations.coco.json", json.dumps(nothing))
    assert findings(root) == [
        ".: the dataset defines no classes; list them in data.yaml, the COCO categories or class folders"
    ]


def test_an_image_stored_lying_on_its_side_is_as_large(tmp_path: Path) -> None:
    train = content(annotations=[], images=[IMAGE | {"width": HEIGHT, "height": WIDTH}])
    item = data.load(exported(tmp_path, train)).splits["train"][0]
    assert (item.width, item.height) == (HEIGHT, WIDTH)


def test_what_is_not_json_says_the_line(tmp_path: Path) -> None:
    exported(tmp_path)
    file = write(tmp_path / "train" / "_annotations.coco.json", '{"images": [],\n"annotations": [,]}')
    with pytest.raises(data.BadDataset) as caught:
        data.load(tmp_path)
    assert (caught.value.findings[0].path, caught.value.findings[0].line) == (file, 2)


def test_an_image_outside_the_dataset_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "secret.png", png(WIDTH, HEIGHT))
    root = exported(tmp_path / "data", content("../../secret.png"))
    with pytest.raises(data.BadDataset, match="outside the dataset"):
        data.load(root)


def test_two_files_for_one_split_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.png", png(WIDTH, HEIGHT))
    for name in ("first.json", "second.json"):
        write(tmp_path / name, json.dumps(content()))
    assert "2 annotation files are for the split train" in findings(tmp_path)[0]
