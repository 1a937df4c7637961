"""The agent as a single file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.contracts.agent.agent_process import Agent

from anygpu.agent.build import build_pyz, source_command

Play = Callable[..., Agent]

USING_ANYGPU = "import anygpu\nanygpu.log(loss=0.5, step=1)\nprint(anygpu.__version__)"


def test_the_same_sources_make_the_same_file(tmp_path: Path) -> None:
    assert build_pyz(tmp_path / "a.pyz") == build_pyz(tmp_path / "b.pyz")


def test_the_file_runs_a_job_unpacked_once_into_the_cache(play: Play, tmp_path: Path) -> None:
    build_pyz(tmp_path / "agent.pyz")
    for _ in range(2):
        agent = play({"code": USING_ANYGPU})
        env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, "-I", "-S", str(tmp_path / "agent.pyz"), str(agent.directory)]
        assert subprocess.run(command, env=env, timeout=30, check=False).returncode == 0
        assert agent.server.points()[0][0] == "loss"
    assert len(list((tmp_path / "cache" / "anygpu" / "agent").iterdir())) == 1


def test_the_file_runs_where_nothing_can_be_cached(play: Play, tmp_path: Path) -> None:
    build_pyz(tmp_path / "agent.pyz")
    (tmp_path / "cache").write_text("no directory")
    agent = play({"code": USING_ANYGPU})
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-I", "-S", str(tmp_path / "agent.pyz"), str(agent.directory)]
    assert subprocess.run(command, env=env, timeout=30, check=False).returncode == 0
    assert agent.server.points()[0][0] == "loss"


def test_a_job_can_use_the_trainers_in_the_file(play: Play, tmp_path: Path) -> None:
    build_pyz(tmp_path / "agent.pyz")
    told = 'import anygpu.trainers as t, sys\nprint("tabular" in t.names(), "lib" in t.__file__, flush=True)'
    for cache in ("a directory", "no directory"):
        place = tmp_path / cache
        place.write_text("") if cache == "no directory" else place.mkdir()
        agent = play({"code": told})
        env = {**os.environ, "XDG_CACHE_HOME": str(place)}
        command = [sys.executable, "-I", "-S", str(tmp_path / "agent.pyz"), str(agent.directory)]
        assert subprocess.run(command, env=env, timeout=60, check=False).returncode == 0
        assert b"True True" in agent.server.log


def test_the_agent_starts_without_slow_modules() -> None:
    heavy = {
        "asyncio",
        "urllib.request",
        "http.client",
        "logging",
        "typing",
        "ssl",
        "inspect",
        "tarfile",
        "ctypes",
    }
    script = (
        "import sys, json; sys.path.insert(0, PLACE)\n"
        "import anygpu.agent.main, anygpu.agent.attempt\nprint(json.dumps(sorted(sys.modules)))"
    )
    place = str(Path(source_command("python")[-1]).parents[2])
    command = [sys.executable, "-I", "-S", "-c", f"PLACE = {place!r}\n{script}"]
    loaded = set(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    assert loaded & heavy == set()
