"""Image folders: classes, splits, and what is wrong with them."""

from pathlib import Path

import pytest
from tests.unit.trainers.data.drawn import image_folder, png, write

from anygpu.trainers import data


def test_folders_of_classes_in_folders_of_splits_are_read(tmp_path: Path) -> None:
    image_folder(tmp_path, {"train/dog": 3, "train/cat": 2, "valid/cat": 1, "valid/dog": 1, "test/dog": 1})
    found = data.load(tmp_path)
    assert found.layout == "image-folder"
    assert found.classes == ("cat", "dog")
    assert {split: len(items) for split, items in found.splits.items()} == {"train": 5, "val": 2, "test": 1}
    first = found.splits["train"][0]
    assert (first.id, first.width, first.height, first.label) == ("train/cat/0.png", 8, 6, 0)


def test_folders_of_classes_alone_are_split(tmp_path: Path) -> None:
    found = data.load(image_folder(tmp_path, {"cat": 10, "dog": 10}), val_fraction=0.3)
    ids = [{item.id for item in found.splits[split]} for split in ("train", "val")]
    assert len(ids[0] | ids[1]) == 20
    assert not ids[0] & ids[1]
    assert {item.label for item in found.splits["val"]} == {0, 1}


def test_a_class_folder_without_images_is_named(tmp_path: Path) -> None:
    image_folder(tmp_path, {"cat": 3, "dog": 3})
    (tmp_path / "horse").mkdir()
    with pytest.raises(data.BadDataset, match=r"horse: class 'horse' has no images"):
        data.load(tmp_path)


def test_a_class_that_is_only_validated_is_named(tmp_path: Path) -> None:
    image_folder(tmp_path, {"train/cat": 3, "train/dog": 3, "val/cat": 1, "val/horse": 1})
    with pytest.raises(data.BadDataset, match="class 'horse' is in val but not in train"):
        data.load(tmp_path)


def test_one_class_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    with pytest.raises(data.BadDataset, match="at least two class folders; found: cat"):
        data.load(image_folder(tmp_path, {"cat": 3}))


def test_a_split_without_images_is_named(tmp_path: Path) -> None:
    image_folder(tmp_path, {"train/cat": 3, "train/dog": 3})
    (tmp_path / "val").mkdir()
    with pytest.raises(data.BadDataset, match="the split 'val' is empty"):
        data.load(tmp_path)


def test_a_link_out_of_the_dataset_is_named(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "elsewhere.png", png())
    root = image_folder(tmp_path / "data", {"cat": 3, "dog": 3})
    (root / "cat" / "linked.png").symlink_to(elsewhere)
    with pytest.raises(data.BadDataset, match=r"linked.png: leads outside the dataset"):
        data.load(root)


def test_a_link_to_itself_and_a_link_to_a_folder_are_named(tmp_path: Path) -> None:
    root = image_folder(tmp_path, {"cat": 3, "dog": 3})
    (root / "cat" / "loop.png").symlink_to(root / "cat" / "loop.png")
    (root / "cat" / "more").symlink_to(root / "dog")
    with pytest.raises(data.BadDataset) as caught:
        data.load(root)
    assert [(each.path.name, each.what[:21]) for each in caught.value.findings] == [
        ("loop.png", "the image cannot be r"),
        ("more", "is a link to a folder"),
    ]


def test_a_file_name_that_is_not_utf_8_is_told_in_characters_that_can_be_printed(tmp_path: Path) -> None:
    root = image_folder(tmp_path, {"cat": 3, "dog": 3})
    write(Path(f"{root}/cat/k\udce4tzchen.png"), png())
    with pytest.raises(data.BadDataset, match="name is not UTF-8") as caught:
        data.load(root)
    assert r"k\xe4tzchen.png" in str(caught.value).encode().decode()


def test_the_hash_is_of_what_is_in_it_and_not_of_where_it_lies(tmp_path: Path) -> None:
    first = data.load(image_folder(tmp_path / "a", {"cat": 3, "dog": 3}))
    again = data.load(image_folder(tmp_path / "b", {"cat": 3, "dog": 3}))
    more = data.load(image_folder(tmp_path / "c", {"cat": 3, "dog": 4}))
    assert first.sha256 == again.sha256 != more.sha256


@pytest.mark.parametrize("made", ["nothing", "empty", "text"])
def test_what_is_no_dataset_says_what_is_accepted(tmp_path: Path, made: str) -> None:
    place = tmp_path / "data"
    if made == "empty":
        place.mkdir()
    if made == "text":
        write(place, "hello")
    with pytest.raises(
        data.BadDataset, match="does not exist" if made == "nothing" else "give one in the format of YOLO"
    ):
        data.load(place)
