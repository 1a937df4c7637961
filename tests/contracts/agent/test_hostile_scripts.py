"""A script cannot block the agent, escape it, or make it read other files of the machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.waiting import alive, until

Play = Callable[..., Agent]

AT_REPORT_PATH = """
import os, socket
path = os.environ["ANYGPU_DIR"] + "/points.jsonl"
{make}
print("trained", flush=True)
"""


@pytest.mark.parametrize(
    "make",
    [
        "os.mkfifo(path)",
        "os.mkdir(path)",
        "os.symlink('/dev/zero', path)",
        "os.chdir(os.path.dirname(path)); socket.socket(socket.AF_UNIX).bind('points.jsonl')",
    ],
    ids=["pipe", "directory", "link to a device", "socket"],
)
def test_only_a_regular_file_is_read_for_reports(play: Play, make: str) -> None:
    agent = play({"code": AT_REPORT_PATH.format(make=make)})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 0)
    log = bytes(agent.server.log)
    assert b"trained\n" in log
    assert log.count(b"cannot be read") == 1


def test_a_pipe_at_the_path_of_the_stop_file_does_not_block_a_cancel(play: Play) -> None:
    code = """
import os, time
os.mkfifo(os.environ["ANYGPU_DIR"] + "/stop")
print("ready", flush=True)
time.sleep(60)
"""
    agent = play({"code": code, "grace_s": 0.5})
    agent.start()
    agent.server.wait_for(lambda: b"ready" in agent.server.log)
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "cancelled"


def test_special_files_and_links_are_not_uploaded(play: Play, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the machine")
    code = f"""
import json, os
os.mkdir("out")
os.mkfifo("out/pipe")
os.symlink({str(secret)!r}, "out/leak")
open("out/ok", "w").write("ok")
channel = os.environ["ANYGPU_DIR"]
os.makedirs(channel + "/checkpoints/1")
os.mkfifo(channel + "/checkpoints/1/pipe")
os.symlink({str(secret)!r}, channel + "/checkpoints/1/leak")
open(channel + "/checkpoints/1/c.pt", "w").write("c")
lines = [{{"c": {{"path": "c.pt", "snapshot": "checkpoints/1", "step": 3}}}}]
lines += [{{"b": {{"path": "x", "snapshot": ".."}}}}]
open(channel + "/points.jsonl", "w").write("".join(json.dumps(line) + "\\n" for line in lines))
"""
    agent = play({"code": code, "outputs": ["out/**"]})
    assert agent.run() == 0
    uploaded = [file["path"] for each in agent.server.checkpoints.values() for file in each["files"]]
    assert uploaded == ["c.pt"]
    assert {each["name"] for each in agent.server.artifacts.values()} == {"out/ok"}
    assert b"of the machine" not in agent.server.blobs.values()
    assert (agent.directory / "channel" / "points.jsonl").exists(), "the channel was removed as a snapshot"


def test_a_snapshot_directory_that_is_a_link_is_not_read_or_removed(play: Play, tmp_path: Path) -> None:
    (tmp_path / "home" / "1").mkdir(parents=True)
    (tmp_path / "home" / "1" / "key").write_text("private")
    code = f"""
import json, os
channel = os.environ["ANYGPU_DIR"]
os.symlink({str(tmp_path / "home")!r}, channel + "/checkpoints")
line = {{"c": {{"path": "c.pt", "snapshot": "checkpoints/1", "step": 3}}}}
open(channel + "/points.jsonl", "w").write(json.dumps(line) + "\\n")
"""
    agent = play({"code": code})
    assert agent.run() == 0
    assert agent.server.checkpoints == {}
    assert (tmp_path / "home" / "1" / "key").read_text() == "private"


def test_a_daemon_without_environment_that_starts_at_once_does_not_outlive_the_job(play: Play) -> None:
    code = """
import os, subprocess, sys, time
daemon = "import os, time; open('pid', 'w').write(str(os.getpid()) + chr(10)); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    nothing = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-c", daemon], env={}, stdin=nothing, stdout=nothing, stderr=nothing)
    os._exit(0)
while not (os.path.exists("pid") and open("pid").read().endswith(chr(10))): time.sleep(0.001)
print(open("pid").read(), end="")
"""
    agent = play({"code": code, "grace_s": 0.5})
    assert agent.run() == 0
    pid = int(bytes(agent.server.log).split()[0])
    until(lambda: not alive(pid))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_texts_that_are_not_valid_unicode_do_not_end_the_job(play: Play) -> None:
    code = r"""
import os
channel = os.environ["ANYGPU_DIR"]
os.makedirs(channel + "/artifacts/1")
open(channel + "/artifacts/1/x", "w").write("x")
with open(channel + "/points.jsonl", "w") as file:
    file.write('{"m": {"\\ud800": 1, "loss": 2}, "t": 5}\n{"p": {"message": "\\udfff"}}\n')
    file.write('{"b": {"path": "x", "name": "a\\ud800", "snapshot": "artifacts/1"}}\n')
"""
    agent = play({"code": code})
    assert agent.run() == 0
    assert [point[0] for point in agent.server.points()] == ["loss"]
    assert agent.server.of_kind("progress")[-1]["message"] == "?"
