import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.trainers.data.drawn import image_folder, write, yolo

from anygpu.cli.root import load_command

BOX = "0 .5 .5 .2 .2"


def anygpu(*words: object) -> Result:
    command = load_command("dataset")
    assert command is not None
    return CliRunner().invoke(command, [str(word) for word in words])


def test_check_summarises_a_valid_dataset(tmp_path: Path) -> None:
    done = anygpu("check", yolo(tmp_path, {"train/a": BOX, "val/b": BOX}))
    assert done.exit_code == 0
    assert "yolo, 2 classes, 1 train, 1 val images\nNo problems found." in done.stdout


def test_check_reports_every_problem_and_fails(tmp_path: Path) -> None:
    done = anygpu("check", yolo(tmp_path, {"train/a": "5 .5 .5 .2 .2\nx", "val/b": BOX}))
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "labels/train/a.txt:1: class index 5 is out of range: classes go from 0 to 1",
        "labels/train/a.txt:2: the line 'x' is not a label; write only numbers, separated by spaces",
    ]
    assert "2 problems in 1 file" in done.stderr


def test_check_limits_the_number_of_printed_problems(tmp_path: Path) -> None:
    done = anygpu("check", yolo(tmp_path, {"train/a": "x\n" * 130, "val/b": BOX}))
    assert "30 more problems; --json shows all" in done.stdout
    assert len(done.stdout.splitlines()) == 101


def test_check_prints_json_for_valid_and_invalid_data(tmp_path: Path) -> None:
    good = json.loads(anygpu("check", yolo(tmp_path / "a", {"train/a": BOX, "val/b": BOX}), "--json").stdout)
    assert (good["ok"], good["images"], good["classes"]) == (True, {"train": 1, "val": 1}, ["cat", "dog"])
    done = anygpu("check", yolo(tmp_path / "b", {"train/a": "x", "val/b": BOX}), "--json")
    bad = json.loads(done.stdout)
    assert (done.exit_code, bad["ok"], bad["findings"][0]["line"]) == (1, False, 1)


def test_check_uses_the_given_task(tmp_path: Path) -> None:
    done = anygpu("check", yolo(tmp_path, {"train/a": BOX, "val/b": BOX}), "--task", "classify")
    assert done.exit_code == 1
    assert "needs an image folder" in done.stdout


def test_check_and_stats_read_tables_too(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "a,b\n1,x\n2,y\n")
    assert "table, 2 columns, 2 rows" in anygpu("check", path).stdout
    assert "b       category" in anygpu("stats", path).stdout
    assert json.loads(anygpu("stats", path, "--json").stdout)[0]["kind"] == "number"
    assert anygpu("check", write(tmp_path / "u.csv", "a,b\n1\n")).exit_code == 1


def test_stats_show_classes_by_split(tmp_path: Path) -> None:
    root = yolo(tmp_path, {"train/a": f"{BOX}\n1 .5 .5 .2 .4", "val/b": ""})
    shown = anygpu("stats", root).stdout
    assert "images        1 train, 1 val" in shown
    assert "dog    1      0    20%    40%" in shown
    assert json.loads(anygpu("stats", root, "--json").stdout)["images"] == {"train": 1, "val": 1}


@pytest.mark.parametrize("layout", ["yolo", "coco"])
def test_convert_writes_the_other_format(tmp_path: Path, layout: str) -> None:
    root = yolo(tmp_path / "a", {"train/a": BOX, "val/b": BOX})
    done = anygpu("convert", root, "--to", layout, tmp_path / "b")
    assert "1 train, 1 val images" in done.stdout
    checked = json.loads(anygpu("check", tmp_path / "b", "--json").stdout)
    assert checked["layout"] == layout


def test_convert_reports_errors_like_other_commands(tmp_path: Path) -> None:
    done = anygpu(
        "convert", yolo(tmp_path / "a", {"train/a": "x", "val/b": BOX}), "--to", "coco", tmp_path / "b"
    )
    assert done.exit_code == 1
    assert done.stderr.startswith("anygpu: ")
    assert not (tmp_path / "b").exists()


def test_split_writes_train_and_val_and_rejects_a_split_dataset(tmp_path: Path) -> None:
    root = image_folder(tmp_path / "a", {"cat": 10, "dog": 10})
    made = json.loads(anygpu("split", root, tmp_path / "b", "--val", "0.4", "--json").stdout)
    assert sum(made["images"].values()) == 20
    again = anygpu("split", tmp_path / "b", tmp_path / "c")
    assert again.exit_code == 2
    assert "is already split" in again.output
