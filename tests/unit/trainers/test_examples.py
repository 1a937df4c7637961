"""The examples that need nothing heavy run, and all of them are jobs."""

import json
from pathlib import Path

import pytest
from tests.unit.trainers import examples

from anygpu.spec import from_file

NAMES = ("digits", "helmets", "nanogpt", "plugin", "tabular")


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_a_job_and_says_how_it_is_run(name: str) -> None:
    spec = from_file(examples.FOLDER / name / "job.yaml")
    assert spec.trainer == examples.job(name)["trainer"]
    assert "anygpu run job.yaml" in (examples.FOLDER / name / "README.md").read_text()


def test_the_plugin_learns_its_flowers(tmp_path: Path) -> None:
    copy = examples.copied("plugin", tmp_path)
    result = examples.trained("plugin", copy)
    assert result.metrics["accuracy"] > 0.9
    assert result.best is not None
    assert len(json.loads(result.best.read_text())["weights"]) == 3


def test_the_table_is_learned(tmp_path: Path) -> None:
    result = examples.trained("tabular", examples.copied("tabular", tmp_path), epochs=4)
    assert result.metrics["accuracy"] > 0.8
