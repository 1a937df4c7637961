"""The Python environment of a job: requirements with pip and uv, and a torch that does not fit."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import archive_of

Play = Callable[..., Agent]

UV = shutil.which("uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
TOOLS = ["pip", "uv"]
SAYING = "import tinything; print(tinything.said)"


def wheel(folder: Path, said: str, version: str = "1.0") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"tinything-{version}-py3-none-any.whl"
    about = f"tinything-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tinything.py", f"said = {said!r}")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: tinything\nVersion: {version}\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    return path


def surroundings(tmp_path: Path, tool: str = "pip") -> dict[str, str]:
    """A cache of its own, and exactly the one tool on the path."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    if tool == "uv" and not (tools / "uv").exists():
        (tools / "uv").symlink_to(str(UV))
    others = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "uv").exists()]
    path = os.pathsep.join([str(tools), *others])
    return {"XDG_CACHE_HOME": str(tmp_path / f"cache-{tool}"), "PATH": path, "UV_OFFLINE": "1"}


@pytest.mark.parametrize("tool", TOOLS)
def test_a_changed_requirements_file_is_installed_again(play: Play, tmp_path: Path, tool: str) -> None:
    for said in ("first", "second"):
        path = wheel(tmp_path / said, said)
        agent = play({"argv": ["python", "-c", SAYING], "requirements": ["-r", "needs.txt"]})
        archive_of(agent.server, {"needs.txt": b"-r more.txt\n", "more.txt": f"{path}\n".encode()})
        agent.start(**surroundings(tmp_path, tool))
        assert agent.finish(120) == 0
        assert agent.server.log.endswith(said.encode() + b"\n"), bytes(agent.server.log)


@pytest.mark.parametrize("tool", TOOLS)
def test_pip_in_a_set_up_command_means_the_environment_of_the_job(
    play: Play, tmp_path: Path, tool: str
) -> None:
    first, second = wheel(tmp_path / "a", "by the spec"), wheel(tmp_path / "b", "by the set-up", "2.0")
    agent = play({"argv": ["python", "-c", SAYING], "requirements": [str(first)]})
    agent.server.work["setup"] = [f"pip install {second}"]
    agent.start(**surroundings(tmp_path, tool))
    assert agent.finish(120) == 0
    assert agent.server.log.endswith(b"by the set-up\n"), bytes(agent.server.log)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_dependencies_of_a_project_are_installed(play: Play, tmp_path: Path, tool: str) -> None:
    path = wheel(tmp_path / "wheels", "by the project")
    project = f'[project]\nname = "x"\nversion = "1"\ndependencies = ["tinything @ file://{path}"]\n'
    agent = play({"argv": ["python", "-c", SAYING], "requirements": ["-r", "pyproject.toml"]})
    archive_of(agent.server, {"pyproject.toml": project.encode()})
    agent.start(**surroundings(tmp_path, tool))
    assert agent.finish(120) == 0
    assert agent.server.log.endswith(b"by the project\n"), bytes(agent.server.log)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_requirement_that_does_not_install_fails_with_the_installers_output(
    play: Play, tmp_path: Path, tool: str
) -> None:
    missing = str(tmp_path / "no_such_thing-1.0-py3-none-any.whl")
    agent = play({"argv": ["python", "-c", "print('never')"], "requirements": [missing]})
    agent.start(**surroundings(tmp_path, tool))
    assert agent.finish(120) == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert agent.server.end["message"].startswith(f"requirements: {tool} could not install the requirements")
    assert "no_such_thing" in agent.server.end["message"]
    assert b"never" not in agent.server.log


def test_a_failed_set_up_is_reported_with_its_last_lines(play: Play) -> None:
    agent = play({"setup": ["echo no such dataset >&2; exit 3"], "code": "print('never')"})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["message"] == (
        "setup: command 1 failed with exit code 3: echo no such dataset >&2; exit 3; its output ends with:"
        "\nno such dataset"
    )


def test_a_torch_that_does_not_fit_the_driver_fails_before_training(play: Play, tmp_path: Path) -> None:
    torch = tmp_path / "site" / "torch"
    torch.mkdir(parents=True)
    (torch / "version.py").write_text("__version__ = '2.13.0+cu130'\ncuda: str = '13.0'\nhip = None\n")
    (torch / "__init__.py").write_text("from torch import _C, cuda\n")
    (torch / "_C.py").write_text("def _cuda_getArchFlags(): return 'sm_75 sm_80'\n")
    (torch / "cuda.py").write_text("def is_available(): return False\n")
    env = surroundings(tmp_path)
    smi = tmp_path / "tools" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho Tesla T4, 470.57.02, 7.5\n")
    smi.chmod(0o755)
    work = {"argv": ["python", "-c", "print('never')"], "env": {"PYTHONPATH": str(tmp_path / "site")}}
    agent = play({**work, "requirements": [str(wheel(tmp_path / "wheels", "x"))]})
    agent.start(**env)
    assert agent.finish(120) == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "failed_to_start"
    assert "470.57.02, supports CUDA 11.4" in agent.server.end["message"]
    assert b"never" not in agent.server.log.replace(b"'never'", b"")


def test_requirements_are_installed_once_and_found_by_the_job(play: Play, tmp_path: Any) -> None:
    import zipfile

    wheel = tmp_path / "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tinything.py", "said = 'installed'")
        file.writestr(
            "tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
        )
        file.writestr(
            "tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr("tinything-1.0.dist-info/RECORD", "")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for expected_longer in (True, False):
        agent = play(
            {
                "argv": ["python", "-c", "import tinything; print(tinything.said)"],
                "requirements": [str(wheel)],
            }
        )
        agent.start(**cache)
        assert agent.finish(120) == 0
        assert agent.server.log.endswith(b"installed\n")
        assert (b"tinything" in agent.server.log) == expected_longer
