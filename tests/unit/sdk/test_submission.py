from pathlib import Path

import pytest

from anygpu.errors import NotFound, UnsafePath
from anygpu.sdk.submission import interpreter, rooted


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "project" / "src" / "train.py").write_text("print(1)")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_script_below_this_directory_travels_with_it(project: Path) -> None:
    assert rooted("src/train.py", None) == (project, "src/train.py")


def test_a_script_elsewhere_brings_its_own_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert rooted(str(project / "src" / "train.py"), None) == (project / "src", "train.py")


def test_a_script_is_also_found_from_the_directory_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert rooted("src/train.py", project) == (project, "src/train.py")


def test_a_missing_script_is_said_before_anything_is_sent(project: Path) -> None:
    with pytest.raises(NotFound, match="no script"):
        rooted("nothing.py", None)


def test_a_directory_that_is_not_there_is_said_as_such(project: Path) -> None:
    with pytest.raises(NotFound, match="There is no directory"):
        rooted("train.py", project / "nowhere")


def test_a_script_outside_the_directory_named_is_refused(project: Path) -> None:
    (project.parent / "other").mkdir()
    with pytest.raises(UnsafePath):
        rooted(str(project / "src" / "train.py"), project.parent / "other")


def test_nobody_uploads_a_home_directory_by_accident(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    with pytest.raises(UnsafePath, match="--workdir"):
        rooted(None, None)
    assert rooted(None, project) == (project, None)


def test_the_active_environments_python_is_meant(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert interpreter({"VIRTUAL_ENV": str(tmp_path)}) == str(tmp_path / "bin" / "python")


def test_an_environment_that_is_gone_is_not(tmp_path: Path) -> None:
    assert Path(interpreter({"VIRTUAL_ENV": str(tmp_path / "gone")})).exists()
