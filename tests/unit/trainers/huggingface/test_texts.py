"""Texts are read from what people have, checked with file and line, and split the same way every time."""

from pathlib import Path

import pytest

from anygpu.trainers import BadDataset
from anygpu.trainers.huggingface.texts import Texts, read_labelled, read_plain


def read(path: Path, text: str = "", label: str = "") -> Texts:
    return read_labelled(path, text=text, label=label, val_fraction=0.25, seed=1)


def table(path: Path, rows: int = 8) -> Path:
    lines = [f"words of number {number},{('yes', 'no')[number % 2]}" for number in range(rows)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")
    return path


def test_a_table_is_split_by_class_and_the_same_way_every_time(tmp_path: Path) -> None:
    found = read(table(tmp_path / "a.csv"))
    assert (len(found.train), len(found.val), found.classes) == (6, 2, ("no", "yes"))
    assert sorted(row.label for row in found.val) == ["no", "yes"]
    assert read(tmp_path / "a.csv") == found


def test_a_split_of_ones_own_is_kept(tmp_path: Path) -> None:
    table(tmp_path / "train.csv")
    table(tmp_path / "validation.csv", rows=2)
    found = read(tmp_path)
    assert (len(found.train), len(found.val)) == (8, 2)


def test_lines_of_json_may_have_columns_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"said": "text {n}", "stars": {n % 2}}}\n' for n in range(8)))
    assert read(path, "said", "stars").classes == ("0", "1")
    with pytest.raises(BadDataset) as caught:
        read(path)
    assert f"{path}:1: no column is called text or sentence; set text_column to one of said, stars" in str(
        caught.value
    )


def test_every_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "label": 1}\nnonsense\n[1]\n')
    with pytest.raises(BadDataset) as caught:
        read(path)
    assert [finding.line for finding in caught.value.findings] == [2, 3]
    path.write_text('{"text": "", "label": 1}\n{"text": "a", "label": null}\n')
    with pytest.raises(BadDataset) as caught:
        read(path)
    assert [str(finding.what) for finding in caught.value.findings] == [
        "column 'text' is empty or not text; fill it, or remove the row",
        "column 'label' is empty; fill it, or remove the row",
    ]


def test_one_class_and_strange_classes_are_said(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,yes\nb,yes\n")
    with pytest.raises(BadDataset, match="fewer than two classes"):
        read(tmp_path / "train.csv")
    table(tmp_path / "train.csv")
    (tmp_path / "val.csv").write_text("text,label\na,perhaps\n")
    with pytest.raises(BadDataset, match="no training texts; add some, or remove the classes: perhaps"):
        read(tmp_path)


def test_a_running_text_is_validated_on_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0123456789" * 10)
    found = read_plain(tmp_path / "a.txt", text="", val_fraction=0.2)
    assert (len(found.train[0].text), len(found.val[0].text)) == (80, 20)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.pdf", b"x", "is not a text dataset"),
        ("a.txt", b" ", "is empty"),
        ("a.txt", b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_what_is_no_text_is_said(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadDataset, match=said):
        read_plain(tmp_path / name, text="", val_fraction=0.2)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadDataset, match="does not exist"):
        read(tmp_path / "nowhere.csv")
