"""Runs an example as its README says, in a copy of its folder, but without a server."""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from anygpu.trainers import TrainingResult, get_trainer

FOLDER = Path(__file__).resolve().parents[3] / "examples"


def copied(name: str, place: Path) -> Path:
    """The example with its data made."""
    copy = place / name
    shutil.copytree(FOLDER / name, copy)
    if (copy / "make_data.py").exists():
        subprocess.run([sys.executable, "make_data.py"], cwd=copy, check=True)
    return copy


def job(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((FOLDER / name / "job.yaml").read_text())
    return found


def trained(name: str, copy: Path, **settings: Any) -> TrainingResult:
    asked = job(name)
    trainer = asked["trainer"]
    return get_trainer(
        str(copy / trainer) if trainer.startswith("./") else trainer,
        dataset_path=copy / asked["dataset"],
        output_dir=copy / "out",
        **{**asked["config"], **settings},
    ).train()
