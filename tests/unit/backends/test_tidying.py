"""Directories of ended attempts go after a while; nothing that may still be wanted does."""

import os
from pathlib import Path

import pytest

from anygpu.agent.box_tidy import DAY_S, tidy

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
def test_only_what_ended_long_ago_and_was_told_goes(
    tmp_path: Path, age_s: float, files: tuple[str, ...], alive: set[str], removed: bool
) -> None:
    directory = an_attempt(tmp_path, "anygpu-a-1", age_s, *files)
    (tmp_path / "cpu-0.lock").touch()
    assert tidy(str(tmp_path), alive, NOW) == (["anygpu-a-1"] if removed else [])
    assert directory.exists() != removed
    assert (tmp_path / "cpu-0.lock").exists()
