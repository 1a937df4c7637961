"""What is in a dataset, counted."""

from pathlib import Path

from tests.unit.trainers.data.drawn import image_folder, png, write, yolo

from anygpu.trainers import data


def test_objects_are_counted_by_class_and_split(tmp_path: Path) -> None:
    labels = {
        "train/a": "0 .5 .5 .2 .4\n0 .5 .5 .4 .4\n1 .5 .5 .1 .1",
        "train/b": "",
        "val/c": "0 .5 .5 .6 .6",
    }
    yolo(tmp_path, labels)
    write(tmp_path / "images/train/b.png", png(400, 300))
    counted = data.statistics(data.load(tmp_path))
    cat, dog = counted.classes
    assert (counted.images, counted.empty) == ({"train": 2, "val": 1}, {"train": 1, "val": 0})
    assert (cat.images, cat.objects) == ({"train": 1, "val": 1}, {"train": 2, "val": 1})
    assert (dog.images, dog.objects) == ({"train": 1, "val": 0}, {"train": 1, "val": 0})
    assert cat.width == data.Spread(least=0.2, median=0.4, most=0.6)
    assert counted.image_width == data.Spread(least=8, median=8, most=400)
    assert counted.imbalance == 2


def test_sizes_are_told_as_coco_tells_them(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": "0 .5 .5 .1 .1\n0 .5 .5 .3 .3\n0 .5 .5 .9 .9", "val/b": ""})
    write(tmp_path / "images/train/a.png", png(200, 200))
    assert data.statistics(data.load(tmp_path)).object_sizes == {"small": 1, "medium": 1, "large": 1}


def test_a_class_that_is_never_trained_on_has_no_imbalance(tmp_path: Path) -> None:
    yolo(tmp_path, {"train/a": "0 .5 .5 .1 .1", "val/b": "1 .5 .5 .1 .1"})
    assert data.statistics(data.load(tmp_path)).imbalance is None


def test_images_of_a_folder_count_for_their_class(tmp_path: Path) -> None:
    counted = data.statistics(
        data.load(image_folder(tmp_path, {"train/cat": 6, "train/dog": 2, "val/cat": 1}))
    )
    assert [each.objects for each in counted.classes] == [{"train": 6, "val": 1}, {"train": 2, "val": 0}]
    assert counted.imbalance == 3
    assert counted.as_dict()["classes"][0]["name"] == "cat"
