"""An agent is started once, however often it is asked for."""

import json
import os
from pathlib import Path

from anygpu.agent.host import requests, slots, start


def test_a_killed_attempt_is_not_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "anygpu-1"
    directory.mkdir()
    assert requests.kill_and_block(str(directory)) == {"known": True, "gone": True}
    order = start.StartRequest(str(directory), "agent.pyz", {"ticket": {"ticket": "t"}})
    assert start.start_agent(order) == ({"agent": "ended"}, None)
    assert not (directory / "ticket.json").exists()


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
