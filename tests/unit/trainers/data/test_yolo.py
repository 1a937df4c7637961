"""YOLO datasets in every shape people have them, and everything that can be wrong with one."""

from pathlib import Path

import pytest
from tests.unit.trainers.data.drawn import png, write, yolo

from anygpu.trainers import data
from anygpu.trainers.data import Box

BOX = "0 0.5 0.5 0.2 0.2"


def findings(path: Path, task: str = "") -> list[str]:
    with pytest.raises(data.BadDataset) as caught:
        data.load(path, task=task)
    root = path if path.is_dir() else path.parent
    return [str(each).replace(f"{root}/", "").replace(str(root), ".") for each in caught.value.findings]


def test_boxes_and_classes_are_read(tmp_path: Path) -> None:
    found = data.load(yolo(tmp_path, {"train/a": f"{BOX}\n1 .1 .2 .1 .2\n", "val/b": BOX, "test/c": ""}))
    assert (found.layout, found.classes, found.root) == ("yolo", ("cat", "dog"), tmp_path.resolve())
    assert [item.id for item in found.items] == [
        "images/train/a.png",
        "images/val/b.png",
        "images/test/c.png",
    ]
    assert found.splits["train"][0].boxes == (Box(0, 0.5, 0.5, 0.2, 0.2), Box(1, 0.1, 0.2, 0.1, 0.2))
    assert found.splits["test"][0].boxes == ()
    assert found.has_own_split


def test_polygons_are_read_with_the_box_around_them(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": "1 0.25 0.25 0.75 0.25 0.5 0.5", "val/b": BOX})
    assert data.load(tmp_path).splits["train"][0].boxes == (
        Box(1, 0.5, 0.375, 0.5, 0.25, polygon=(0.25, 0.25, 0.75, 0.25, 0.5, 0.5)),
    )


@pytest.mark.parametrize(
    ("shape", "points"), [([2, 3], (0.4, 0.4, 2, 0, 0, 0)), ([2, 2], (0.4, 0.4, 0.6, 0.6))]
)
def test_keypoints_are_read_as_kpt_shape_says(
    tmp_path: Path, shape: list[int], points: tuple[float, ...]
) -> None:
    line = f"{BOX} {' '.join(map(str, points))}"
    found = data.load(
        yolo(tmp_path, {"train/a": line, "val/b": line}, more=f"kpt_shape: {shape}\n"), task="pose"
    )
    assert found.keypoint_shape == tuple(shape)
    assert found.splits["val"][0].boxes == (Box(0, 0.5, 0.5, 0.2, 0.2, keypoints=points),)


@pytest.mark.parametrize(
    "config",
    [
        "path: .\ntrain: images/train\nval: images/val\nnames: {0: cat, 1: dog}\n",
        "path: ../elsewhere/that/is/gone\ntrain: images/train\nval: [images/val]\nnames: [cat, dog]\nnc: 2\n",
        "train: ../images/train\nvalid: ../images/val\nnames: [cat, dog]\n",
        "train: train.txt\nval: val.txt\nnames: [cat, dog]\n",
    ],
)
def test_every_spelling_of_the_splits_means_the_same(tmp_path: Path, config: str) -> None:
    root = yolo(tmp_path / "data", {"train/a": BOX, "train/b": BOX, "val/c": BOX})
    write(root / "train.txt", "images/train/a.png\n./images/train/b.png\n")
    write(root / "val.txt", "images/val/c.png\n")
    write(root / "data.yaml", config)
    for found in (data.load(root), data.load(root / "data.yaml")):
        assert {split: len(items) for split, items in found.splits.items()} == {"train": 2, "val": 1}
        assert found.classes == ("cat", "dog")


def test_a_data_yaml_may_lie_away_from_its_images(tmp_path: Path) -> None:
    root = yolo(tmp_path / "data", {"train/a": BOX, "val/c": BOX})
    config = write(
        tmp_path / "configs" / "mine.yaml", "path: ../data\ntrain: images/train\nval: images/val\nnc: 1\n"
    )
    found = data.load(config)
    assert (found.root, found.classes) == (root.resolve(), ("class_0",))


@pytest.mark.parametrize("split_first", [True, False])
def test_a_tree_of_images_and_labels_needs_no_data_yaml(tmp_path: Path, split_first: bool) -> None:
    for split in ("train", "valid"):
        images, labels = (
            f"{split}/{kind}" if split_first else f"{kind}/{split}" for kind in ("images", "labels")
        )
        write(tmp_path / images / "a.png", png())
        write(tmp_path / labels / "a.txt", "2 .5 .5 .1 .1")
    found = data.load(tmp_path)
    assert (found.classes, list(found.splits)) == (("0", "1", "2"), ["train", "val"])
    assert "the classes are called 0, 1, 2" in found.notes[0].what


def test_a_tree_without_splits_is_split_and_classes_txt_names_the_classes(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path / "images" / f"{number}.png", png(colour=(number, 0, 0)))
        write(tmp_path / "labels" / f"{number}.txt", BOX)
    write(tmp_path / "classes.txt", "helmet\n")
    found = data.load(tmp_path, val_fraction=0.3)
    assert found.classes == ("helmet",)
    assert len(found.splits["train"]) + len(found.splits["val"]) == 10
    assert found.splits["val"]
    assert not found.has_own_split


def test_everything_wrong_with_labels_is_said_at_once_with_file_and_line(tmp_path: Path) -> None:
    lines = [
        BOX,
        "7 .5 .5 .1 .1",
        "0 .9 .5 .5 .1",
        "0 .5 .5 0 .1",
        "0 .5 .5",
        "",
        "cat .5 .5 .1 .1",
        "0.5 .5 .5 .1 .1",
        "0 nan .5 .1 .1",
        "0 .1 .1 .9 .1 1.5 .9",
        "-1 .5 .5 .1 .1",
        "nan .5 .5 .1 .1",
    ]
    yolo(tmp_path, {"train/a": "\n".join(lines), "val/b": BOX})
    assert findings(tmp_path) == [
        "labels/train/a.txt:2: class index 7 is out of range: classes go from 0 to 1",
        "labels/train/a.txt:3: the box is outside the image: x from 0.65 to 1.15, y from 0.45 to 0.55,"
        " but both must be from 0 to 1",
        "labels/train/a.txt:4: the box has no size: width 0, height 0.1",
        "labels/train/a.txt:5: the line '0 .5 .5' has 3 numbers; write 5 for a box (class x y w h), or a class"
        " and three or more x y pairs for a polygon",
        "labels/train/a.txt:7: the line 'cat .5 .5 .1 .1' is not a label; write only numbers, separated by spaces",
        "labels/train/a.txt:8: the class at the start of the line has to be a whole number, not 0.5; correct it",
        "labels/train/a.txt:9: a coordinate is NaN or infinite; correct it, or remove the object",
        "labels/train/a.txt:10: the box is outside the image: x from 0.1 to 1.5, y from 0.1 to 0.9,"
        " but both must be from 0 to 1",
        "labels/train/a.txt:11: class index -1 is out of range: classes go from 0 to 1",
        "labels/train/a.txt:12: the class at the start of the line has to be a whole number, not nan; correct it",
    ]


def test_keypoints_that_do_not_fit_kpt_shape_are_named(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": f"{BOX} .1 .1", "val/b": f"{BOX} .1 .1 2"}, more="kpt_shape: [1, 3]\n")
    assert findings(tmp_path) == [
        "labels/train/a.txt:1: the line has 7 numbers, but kpt_shape [1, 3] in data.yaml requires 8; correct one"
        " of them"
    ]


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("train: images/train\n", "data.yaml: names is missing"),
        ("names: 3\ntrain: images/train\n", "data.yaml:1: names has to be a list"),
        (
            "train: images/train\nnames: {0: a, 2: b}\n",
            "data.yaml:2: the keys of names have to be 0 to 1 without a gap",
        ),
        (
            "names: [cat, no]\ntrain: images/train\n",
            "data.yaml:1: the class name False has to be text; put it in quotes",
        ),
        ("names: [cat, cat]\ntrain: images/train\n", "data.yaml:1: two classes are called 'cat'; rename one"),
        ("names: [cat, dog]\nnc: 3\ntrain: images/train\n", "data.yaml:2: nc is 3, but there are 2 names"),
        ("names: [cat, dog]\n", "data.yaml: train is missing"),
        ("names: [cat, dog]\nval: images/val\n", ".: there is no train split"),
        ("names: [cat, dog]\ntrain: pictures\n", "data.yaml:2: train: pictures does not exist"),
        ("names: [cat, dog]\ntrain: images/train\nkpt_shape: 5\n", "data.yaml:3: kpt_shape has to be"),
        ("names: [cat\ntrain: x\n", "data.yaml:2: is not valid YAML"),
        ("just text\n", "data.yaml: is not a YAML mapping"),
    ],
)
def test_a_wrong_data_yaml_says_what_to_correct(tmp_path: Path, config: str, what: str) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    write(tmp_path / "data.yaml", config)
    assert findings(tmp_path)[0].startswith(what)


def test_a_data_yaml_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(data.BadDataset, match="does not exist"):
        data.load(tmp_path / "data.yaml")


def test_a_split_that_leads_out_of_the_dataset_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "other" / "a.png", png())
    yolo(tmp_path / "data", {"train/a": BOX, "val/b": BOX})
    config = f"names: [cat, dog]\ntrain: images/train\nval: {tmp_path}/other\n"
    write(tmp_path / "data" / "data.yaml", config)
    assert any("outside the dataset" in each for each in findings(tmp_path / "data"))


def test_images_and_labels_that_lost_each_other_are_named(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    write(tmp_path / "labels/train/gone.txt", BOX)
    write(tmp_path / "labels/train/classes.txt", "cat\ndog\n")
    write(tmp_path / "list.txt", "images/train/a.png\nimages/train/missing.png\n")
    write(tmp_path / "data.yaml", "names: [cat, dog]\ntrain: list.txt\nval: images/val\n")
    assert findings(tmp_path) == [
        "labels/train/gone.txt: this label file has no image; add the image, or remove the file",
        "list.txt:2: the image images/train/missing.png does not exist",
    ]


def test_no_label_at_all_says_where_they_are_expected(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    (tmp_path / "labels/train/a.txt").rename(tmp_path / "a.txt")
    assert findings(tmp_path) == [
        "labels/train/a.txt: no image of train has a label file; put the labels into files like this one"
    ]


def test_an_image_without_a_label_file_shows_nothing_and_is_noted(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "train/b": BOX, "val/b": BOX})
    (tmp_path / "labels/train/b.txt").unlink()
    found = data.load(tmp_path)
    assert found.splits["train"][1].boxes == ()
    assert "1 images of train have no label file" in found.notes[0].what


def test_labels_that_are_not_utf_8_are_named_with_the_line(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    write(tmp_path / "labels/train/a.txt", b"0 .5 .5 .1 .1\n\xff\xfe")
    assert findings(tmp_path) == ["labels/train/a.txt:2: is not UTF-8; save it as UTF-8"]


def test_an_empty_split_is_named(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    (tmp_path / "images/val/b.png").unlink()
    (tmp_path / "labels/val/b.txt").unlink()
    assert findings(tmp_path) == [".: the split 'val' is empty: there is no image in it"]


def test_a_line_written_twice_is_one_object(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": f"{BOX}\n{BOX}\n", "val/b": BOX})
    assert len(data.load(tmp_path).splits["train"][0].boxes) == 1


@pytest.mark.parametrize(
    ("task", "what"),
    [
        ("segment", "images/train/a.png: task 'segment' needs polygons"),
        ("pose", ".: task 'pose' needs keypoints"),
        ("image-classification", ".: task 'image-classification' needs an image folder"),
    ],
)
def test_data_that_cannot_teach_the_task_is_refused(tmp_path: Path, task: str, what: str) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    assert findings(tmp_path, task)[0].startswith(what)


def test_the_same_image_in_two_splits_is_noted(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": BOX, "val/b": BOX})
    (tmp_path / "images/val/b.png").write_bytes((tmp_path / "images/train/a.png").read_bytes())
    assert "1 images are in more than one split" in data.load(tmp_path).notes[0].what
