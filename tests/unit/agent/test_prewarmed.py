"""An agent that was started before its attempt is known."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from anygpu.agent import exit_codes
from anygpu.agent.build import source_command
from anygpu.agent.host.processes import PLACEHOLDER_NAME

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the environment in /proc")


def start(stdin: socket.socket) -> "subprocess.Popen[bytes]":
    env = {"PATH": os.environ["PATH"], "ANYGPU_NAME": PLACEHOLDER_NAME}
    return subprocess.Popen([*source_command(sys.executable), "--spare"], stdin=stdin.fileno(), env=env)


def test_a_prewarmed_agent_takes_over_a_directory_and_its_log(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    order = {"name": "anygpu-1-1", "directory": str(tmp_path), "env": {}}
    with theirs, start(theirs) as process, (tmp_path / "agent.log").open("wb") as log, ours:
        socket.send_fds(ours, [json.dumps(order).encode()], [log.fileno()])
        assert process.wait(30) == exit_codes.USAGE
    assert f"{tmp_path} has no file ticket.json" in (tmp_path / "agent.log").read_text()


def test_a_prewarmed_agent_exits_when_its_backend_closes_the_socket() -> None:
    ours, theirs = socket.socketpair()
    with theirs, start(theirs) as process:
        theirs.close()
        ours.close()
        assert process.wait(30) == exit_codes.DELIVERED
