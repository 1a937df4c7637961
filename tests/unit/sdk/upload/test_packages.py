"""Capture the packages of an interpreter as requirements for another machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.prepare.venv import has_pinned_packages
from anygpu.errors import InvalidSpec
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.torch_wheels import torch_mismatch
from anygpu.sdk.upload.packages import capture_packages


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True, timeout=120)
    return directory


@pytest.fixture
def environment(empty: Path) -> Path:
    for each in site_packages(empty).glob("*.dist-info"):
        for file in each.iterdir():
            file.unlink()
        each.rmdir()
    return empty


def site_packages(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def add_package(environment: Path, name: str, version: str, origin: dict[str, Any] | None = None) -> None:
    info = site_packages(environment) / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin))


def captured(environment: Path, workdir: Path) -> list[str]:
    return capture_packages(str(environment / "bin/python"), workdir).requirements


def test_packages_are_pinned_and_installers_are_left_out(environment: Path, tmp_path: Path) -> None:
    for name, version in (("numpy", "2.1.0"), ("pip", "24.0"), ("setuptools", "70"), ("Scikit-Learn", "1.5")):
        add_package(environment, name, version)
    assert captured(environment, tmp_path) == ["numpy==2.1.0", "Scikit-Learn==1.5"]


def test_builds_of_torch_are_left_to_the_machine(environment: Path, tmp_path: Path) -> None:
    add_package(environment, "torch", "2.13.0+cpu")
    add_package(environment, "torchvision", "0.28.0+cpu")
    add_package(environment, "nvidia-cublas-cu12", "12.4.5.8")
    add_package(environment, "triton", "3.1.0")
    wanted = captured(environment, tmp_path)
    assert wanted == ["torch==2.13.0+auto", "torchvision==0.28.0+auto"]
    assert torch_mismatch(wanted, gpus.spec("V100-16GB"), "535.54") == ""  # the agent chooses another build


def test_packages_from_version_control_keep_their_commit(environment: Path, tmp_path: Path) -> None:
    source = {"url": "https://example.org/a.git", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}
    add_package(environment, "mine", "0.1", source)
    add_package(environment, "web", "0.1", {"url": "https://example.org/web-0.1.whl", "archive_info": {}})
    assert captured(environment, tmp_path) == [
        "mine @ git+https://example.org/a.git@abc123",
        "web @ https://example.org/web-0.1.whl",
    ]


def test_a_package_from_a_local_path_is_refused_or_reported(environment: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "work", tmp_path / "elsewhere"
    (here / "lib").mkdir(parents=True)
    add_package(environment, "inside", "1", {"url": (here / "lib").as_uri(), "dir_info": {"editable": True}})
    add_package(environment, "numpy", "2.1.0")
    found = capture_packages(str(environment / "bin/python"), here)
    assert found.requirements == ["numpy==2.1.0"]
    assert "inside is installed from" in found.notes[0]
    add_package(environment, "outside", "1", {"url": there.as_uri(), "dir_info": {"editable": True}})
    with pytest.raises(
        InvalidSpec, match=r"outside is installed from .*elsewhere, which other machines do not have"
    ):
        captured(environment, here)


def test_an_interpreter_that_does_not_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="cannot be listed"):
        capture_packages(str(tmp_path / "python"), tmp_path)


def test_an_interpreter_that_has_the_captured_packages_is_used_as_it_is(environment: Path) -> None:
    add_package(environment, "torch", "2.13.0+cpu")
    add_package(environment, "numpy", "2.1.0")
    python = str(environment / "bin/python")
    assert has_pinned_packages(python, ["numpy==2.1.0", "torch==2.13.0+auto"])
    assert not has_pinned_packages(python, ["numpy==2.1.1"])
    assert not has_pinned_packages(python, ["absent==1"])
    assert not has_pinned_packages(python, ["numpy"])
    assert not has_pinned_packages(python, ["-r", "requirements.txt"])
