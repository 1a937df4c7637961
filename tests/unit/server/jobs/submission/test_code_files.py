"""The code that the analyser reads from the directory of a job that runs in place."""

import os
from pathlib import Path

from anygpu.server.jobs.submission.code_files import MAX_ENTRIES, read_code
from anygpu.spec.load import from_mapping


def test_the_script_and_the_code_near_it_are_read(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".venv").mkdir()
    for name in ("train.py", "src/model.py", "config.yaml", ".venv/no.py", "data.bin"):
        (tmp_path / name).write_text(name)
    (tmp_path / "large.py").write_bytes(b"#" * (3 << 20))
    found = read_code(from_mapping({"script": "train.py"}), str(tmp_path))
    assert set(found) == {"train.py", "src/model.py", "config.yaml"}


def test_a_script_elsewhere_is_read_with_the_code_beside_it(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "train.py").write_text("import model")
    (tmp_path / "x" / "model.py").write_text("")
    (tmp_path / "x" / "model.py").write_text("A = 1")
    found = read_code(from_mapping({"script": "../x/train.py"}), str(tmp_path / "here"))
    assert found["../x/train.py"] == b"import model"
    assert found["model.py"] == b"A = 1"


def test_a_directory_with_very_many_files_is_not_read_completely(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(MAX_ENTRIES + 10):
        os.close(os.open(tmp_path / "data" / f"{number}.png", os.O_CREAT))
    (tmp_path / "data" / "zz").mkdir()
    (tmp_path / "data" / "zz" / "late.py").write_text("late")
    (tmp_path / "train.py").write_text("1")
    assert set(read_code(from_mapping({"script": "train.py"}), str(tmp_path))) == {"train.py"}


def test_a_missing_script_gives_nothing(tmp_path: Path) -> None:
    assert read_code(from_mapping({"script": "gone.py"}), str(tmp_path)) == {}
