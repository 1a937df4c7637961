"""The shortest path: claim, run, report, end."""

from __future__ import annotations

from collections.abc import Callable

from tests.contracts.agent.agent_process import Agent

Play = Callable[..., Agent]


def test_what_a_script_prints_arrives_byte_for_byte_and_the_end_is_told(play: Play) -> None:
    agent = play({"code": "print('hello')\nimport sys; sys.stderr.write('and errors\\n')"})
    assert agent.run() == 0
    server = agent.server
    assert bytes(server.log) == b"hello\nand errors\n"
    assert [frame["phase"] for frame in server.of_kind("phase")] == ["training", "finishing"]
    assert server.end is not None
    assert (server.end["outcome"], server.end["exit_code"]) == ("exited", 0)
    assert server.end["log_bytes"] == len(server.log)
    assert server.end["last_seq"] == server.expected - 1


def test_an_exit_code_and_the_last_line_are_told(play: Play) -> None:
    agent = play({"argv": ["python", "-c", "raise ValueError('no such optimiser')"]})
    assert agent.run() == 0
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 1
    assert agent.server.end["message"] == "ValueError: no such optimiser"


def test_a_shell_line_runs_in_the_working_directory(play: Play) -> None:
    agent = play({"shell": "pwd; echo $ANYGPU_JOB_ID-$ANYGPU_ATTEMPT"})
    assert agent.run() == 0
    assert bytes(agent.server.log).decode() == f"{agent.directory}/work\njob-1-1\n"
