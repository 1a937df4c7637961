"""The directory of an attempt."""

import os
from pathlib import Path

import pytest

from anygpu.agent.attempt_dir import DAY_S, AttemptDir, JobDirectories, remove_old_attempts

NOW = 1_800_000_000.0


def an_attempt(attempts: Path, name: str, age_s: float, *files: str) -> Path:
    directory = attempts / name
    directory.mkdir(parents=True)
    for file in ("agent.json", *files):
        (directory / file).write_text("{}")
        os.utime(directory / file, (NOW - age_s, NOW - age_s))
    os.utime(directory, (NOW - age_s, NOW - age_s))
    return directory


@pytest.mark.parametrize(
    ("age_s", "files", "alive", "removed"),
    [
        (2 * DAY_S, (), set(), True),
        (0.5 * DAY_S, (), set(), False),
        (2 * DAY_S, (), {"anygpu-a-1"}, False),
        (2 * DAY_S, ("work.json",), set(), False),
        (31 * DAY_S, ("work.json",), set(), True),
    ],
)
def test_old_directories_of_ended_attempts_are_removed(
    tmp_path: Path, age_s: float, files: tuple[str, ...], alive: set[str], removed: bool
) -> None:
    directory = an_attempt(tmp_path, "anygpu-a-1", age_s, *files)
    (tmp_path / "cpu-0.lock").touch()
    assert remove_old_attempts(str(tmp_path), alive, NOW) == (["anygpu-a-1"] if removed else [])
    assert directory.exists() != removed
    assert (tmp_path / "cpu-0.lock").exists()


def test_a_marker_that_cannot_be_created_is_no_error(tmp_path: Path) -> None:
    AttemptDir(str(tmp_path)).create_marker("ending")
    assert (tmp_path / "ending").read_bytes() == b""
    AttemptDir(str(tmp_path / "nowhere")).create_marker("ending")
    assert not (tmp_path / "nowhere").exists()


def test_a_missing_directory_of_attempts_is_empty(tmp_path: Path) -> None:
    assert remove_old_attempts(str(tmp_path / "nowhere"), []) == []


def test_files_of_anygpu_are_in_the_working_directory_of_a_copy(tmp_path: Path) -> None:
    copy = JobDirectories(str(tmp_path))
    assert copy.outputs == str(tmp_path / ".anygpu" / "outputs")
    assert copy.name_of(str(tmp_path / ".anygpu" / "checkpoints" / "a.pt")) == ".anygpu/checkpoints/a.pt"
    assert copy.name_of("/elsewhere/a.pt") == "a.pt"


def test_files_of_anygpu_are_outside_of_a_directory_in_place(tmp_path: Path) -> None:
    own, home = tmp_path / "attempt", tmp_path / "home"
    place = JobDirectories(str(home), str(own))
    place.create()
    assert list(home.iterdir()) == []
    for name, path in [
        ("ckpt/a.pt", home / "ckpt" / "a.pt"),
        (".anygpu/checkpoints/a.pt", own / ".anygpu" / "checkpoints" / "a.pt"),
    ]:
        assert (place.path_of(name), place.name_of(str(path))) == (str(path), name)
    assert place.name_of("/elsewhere/a.pt") == ".anygpu/checkpoints/a.pt"
