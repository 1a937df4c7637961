"""Requests of a server, handled on the machine without SSH."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import anygpu.agent
from anygpu.agent.host import requests


def test_attempt_names_with_paths_are_refused(tmp_path: Path) -> None:
    for name in ("../x", ".hidden", ""):
        with pytest.raises(OSError, match="not the name of an attempt"):
            requests.handle_request(str(tmp_path), "agent.pyz", {"do": "kill", "target": name}, print)


@pytest.mark.parametrize("words", [["--check"], ["--list"], ["--kill", "anygpu-none-1"]])
def test_a_subcommand_prints_one_line_of_json(words: list[str], tmp_path: Path) -> None:
    agent = Path(anygpu.agent.__file__).with_name("__main__.py")
    done = subprocess.run(
        [sys.executable, "-I", "-S", agent, *words],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert set(json.loads(line)) & {"names", "gone"}


def test_a_subcommand_without_its_directory_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert requests.main(["--start"]) == 2
    assert (
        "--start needs one more argument: the directory or the name of an attempt" in capsys.readouterr().err
    )


def test_a_kill_before_the_start_request_blocks_the_start(tmp_path: Path) -> None:
    replies: list[dict[str, object]] = []
    name = "anygpu-0123456789abcdef-1"
    requests.handle_request(str(tmp_path), "agent.pyz", {"do": "kill", "target": name}, replies.append)
    start = {"do": "start", "target": name, "ticket": {"protocol": 1, "name": name, "ticket": "t"}}
    requests.handle_request(str(tmp_path), "agent.pyz", start, replies.append)
    assert replies == [{"known": False, "gone": True}, {"agent": "ended"}]
