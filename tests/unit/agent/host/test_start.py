"""An agent is started once, however often it is asked for."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anygpu.agent.host import requests, slots, start


def test_a_killed_attempt_is_not_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "anygpu-1"
    directory.mkdir()
    assert requests.kill_and_block(str(directory)) == {"known": True, "gone": True}
    order = start.StartRequest(str(directory), "agent.pyz", {"ticket": {"ticket": "t"}})
    assert start.start_agent(order) == ({"agent": "ended"}, None)
    assert not (directory / "ticket.json").exists()


AGENT = """
import fcntl, os, sys, time
lock = open("agent.lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("ending", "w").close()
print("reported", flush=True)
time.sleep(float(sys.argv[1]))
os.unlink("work.json")
os.unlink("ending")
time.sleep(1000)
"""


@pytest.mark.parametrize(("takes_s", "is_kept"), [(0.3, False), (1000, True)])
def test_an_agent_that_reports_its_end_has_time_to_remove_its_secrets(
    tmp_path: Path, takes_s: float, is_kept: bool
) -> None:
    directory = tmp_path / "anygpu-1"
    directory.mkdir()
    (directory / "work.json").write_text('{"token": "t"}')
    agent = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(takes_s)],
        cwd=directory,
        env={**os.environ, "ANYGPU_NAME": directory.name},
        stdout=subprocess.PIPE,
    )
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"reported\n"
    assert requests.kill_and_block(str(directory)) == {"known": True, "gone": True}
    assert agent.wait(10) == -signal.SIGKILL
    assert (directory / "work.json").exists() is is_kept
    agent.stdout.close()


def test_an_attempt_without_a_ticket_is_unknown(tmp_path: Path) -> None:
    order = start.StartRequest(
        str(tmp_path / "anygpu-1"), "agent.pyz", {"tunnel": {"url": "http://127.0.0.1:1"}}
    )
    assert start.start_agent(order) == ({"agent": "unknown"}, None)


def test_an_agent_that_died_is_not_started_again(tmp_path: Path) -> None:
    (tmp_path / "process.json").write_text('{"pid": null}')
    (tmp_path / "work.json").write_text("{}")
    order = start.StartRequest(str(tmp_path), "agent.pyz", {"ticket": {"ticket": "t"}})
    assert start.start_agent(order) == ({"agent": "dead", "told": False}, None)


def test_a_running_agent_gets_only_its_new_tunnel(tmp_path: Path) -> None:
    lock = slots.try_lock(str(tmp_path / "agent.lock"))
    assert lock is not None
    asked = {"ticket": {"ticket": "t"}, "tunnel": {"url": "http://127.0.0.1:2"}}
    assert start.start_agent(start.StartRequest(str(tmp_path), "agent.pyz", asked)) == (
        {"agent": "alive"},
        None,
    )
    os.close(lock)
    assert json.loads((tmp_path / "tunnel.json").read_text()) == {"url": "http://127.0.0.1:2"}
