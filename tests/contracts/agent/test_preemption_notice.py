"""The provider announces that it takes the machine away."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import content, results, saved
from tests.contracts.agent.metadata_service import MetadataService

Play = Callable[..., Agent]

SAVING = """
import anygpu, pathlib, time
print("on", flush=True)
while not anygpu.should_stop():
    time.sleep(0.02)
pathlib.Path("last.pt").write_bytes(b"state")
anygpu.checkpoint("last.pt", step=7)
print("saved")
"""
STUBBORN = """
import pathlib, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("ckpt").mkdir()
pathlib.Path("ckpt/last.pt").write_bytes(b"what is there")
print("on", flush=True)
time.sleep(60)
"""


@pytest.fixture
def metadata() -> Iterator[MetadataService]:
    with MetadataService().listening() as service:
        yield service


def watching(agent: Agent, kind: str) -> None:
    with_ticket(agent, notices=kind)


def with_ticket(agent: Agent, **fields: object) -> None:
    ticket = agent.directory / "ticket.json"
    ticket.write_text(json.dumps({**json.loads(ticket.read_text()), **fields}))


def is_on(agent: Agent) -> Callable[[], bool]:
    return lambda: agent.server.log.startswith(b"on\n")


@pytest.mark.parametrize(
    ("kind", "evidence"),
    [
        ("aws", 'AWS spot/instance-action says {"action": "terminate"'),
        ("gcp", "Google instance/preempted is TRUE"),
        ("azure", "Azure scheduled event e2: Preempt, not before"),
    ],
)
def test_after_a_notice_the_script_saves_and_its_checkpoint_is_uploaded(
    play: Play, metadata: MetadataService, kind: str, evidence: str
) -> None:
    agent = play({"code": SAVING})
    watching(agent, kind)
    agent.start(**metadata.env)
    agent.server.wait_for(is_on(agent))
    metadata.take_back(60)
    assert agent.finish() == 0
    assert [(one["step"], content(agent.server, one["files"][0])) for one in saved(agent.server)] == [
        (7, b"state")
    ]
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("stopped", 0)
    assert agent.server.end["message"].startswith("preempt: the provider takes the machine away in ")
    assert evidence in agent.server.end["message"]
    assert evidence.encode() in agent.server.log


@pytest.mark.extended
def test_a_script_that_ignores_a_short_notice_is_killed_and_its_files_are_uploaded(
    play: Play, metadata: MetadataService
) -> None:
    agent = play({"code": STUBBORN, "checkpoint": {"paths": ["ckpt/*.pt"], "every_s": 600}, "grace_s": 30})
    watching(agent, "aws")
    agent.start(**metadata.env)
    agent.server.wait_for(is_on(agent))
    metadata.take_back(14)
    gone_at = metadata.gone_at
    assert gone_at is not None
    assert agent.finish() == 0
    assert time.time() < gone_at
    assert [content(agent.server, one["files"][0]) for one in saved(agent.server)] == [b"what is there"]
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["signal"]) == ("stopped", 9)


def test_checkpoints_are_uploaded_before_results_when_time_is_short(
    play: Play, metadata: MetadataService
) -> None:
    code = SAVING.replace(
        "while not",
        "pathlib.Path('big.bin').write_bytes(b'b' * 3000000)\nanygpu.artifact('big.bin')\nwhile not",
    )
    agent = play({"code": code, "outputs": ["last.pt"]})
    watching(agent, "gcp")

    def slow_results(path: str, count: int) -> None:
        if path == "/agent/v1/artifacts" and not saved(agent.server):
            time.sleep(0.3)

    agent.server.fault = slow_results
    agent.start(**metadata.env)
    agent.server.wait_for(is_on(agent))
    metadata.take_back(30)
    assert agent.finish() == 0
    kinds = [
        "checkpoint" if number in agent.server.checkpoints else "result" for number in agent.server.committed
    ]
    assert kinds.index("checkpoint") <= 1, "at most the result that was already on its way came first"
    assert set(results(agent.server)) == {"big.bin", "last.pt"}


def test_a_job_whose_results_were_not_uploaded_is_reported_as_preempted(
    play: Play, metadata: MetadataService
) -> None:
    agent = play(
        {"code": "print('on', flush=True)\nopen('big.bin', 'wb').write(b'b' * 1000)", "outputs": ["big.bin"]}
    )
    watching(agent, "aws")
    agent.server.fault = lambda path, count: "500" if path == "/agent/v1/artifacts" else None
    agent.start(**metadata.env)
    agent.server.wait_for(is_on(agent))
    metadata.take_back(2)
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("stopped", 0)


def test_a_notice_stops_the_preparation(play: Play, metadata: MetadataService) -> None:
    agent = play({"setup": ["echo on; sleep 60"], "code": "print('never')"})
    watching(agent, "gcp")
    agent.start(**metadata.env)
    agent.server.wait_for(lambda: b"\non\n" in agent.server.log)
    metadata.take_back(30)
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("stopped", None)


def test_without_a_notice_source_nothing_is_polled(play: Play, metadata: MetadataService) -> None:
    agent = play({"code": "import time\ntime.sleep(0.3)"})
    watching(agent, "")
    assert agent.run(**metadata.env) == 0
    assert metadata.asked == []


@pytest.mark.extended
def test_a_sigterm_of_an_engine_with_a_known_grace_is_a_notice_with_that_time(play: Play) -> None:
    agent = play({"code": STUBBORN, "checkpoint": {"paths": ["ckpt/*.pt"], "every_s": 600}, "grace_s": 600})
    with_ticket(agent, sigterm_notice_s=16)
    process = agent.start()
    agent.server.wait_for(is_on(agent))
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert agent.finish() == 0
    assert time.monotonic() - began < 16
    assert [content(agent.server, one["files"][0]) for one in saved(agent.server)] == [b"what is there"]
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["signal"]) == ("stopped", 9)
    assert "the engine sent SIGTERM" in agent.server.end["message"]


def test_the_notice_of_a_time_limit_leaves_the_script_its_time(play: Play) -> None:
    agent = play({"code": SAVING, "grace_s": 0.1})
    with_ticket(agent, sigterm_notice_s=0.2, sigurg_notice_s=60)
    process = agent.start()
    agent.server.wait_for(is_on(agent))
    process.send_signal(signal.SIGURG)
    assert agent.finish() == 0
    assert [one["step"] for one in saved(agent.server)] == [7]
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("stopped", 0)
    assert "the engine's time limit approaches" in agent.server.end["message"]


def test_an_end_before_the_time_limit_shortens_the_notice(play: Play) -> None:
    agent = play({"code": STUBBORN, "grace_s": 600})
    with_ticket(agent, sigterm_notice_s=4, sigurg_notice_s=600)
    process = agent.start()
    agent.server.wait_for(is_on(agent))
    process.send_signal(signal.SIGURG)
    agent.server.wait_for(lambda: b"time limit" in agent.server.log)
    process.send_signal(signal.SIGTERM)
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert "the engine sent SIGTERM" in agent.server.end["message"]


def test_a_job_that_its_engine_killed_before_the_agent_noticed_is_preempted(play: Play) -> None:
    """Slurm sends SIGTERM to all processes of a job, one after the other."""
    agent = play({"code": "import os, time; print(os.getpid(), flush=True); time.sleep(60)"})
    with_ticket(agent, sigterm_notice_s=8)
    process = agent.start()
    agent.server.wait_for(lambda: agent.server.log.endswith(b"\n"))
    os.kill(int(agent.server.log), signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "stopped"


def test_an_agent_that_runs_in_the_image_starts_no_container(play: Play) -> None:
    agent = play({"code": "print('inside')", "image": "some/image", "setup": ["echo set up"]})
    with_ticket(agent, in_image=True, remote=True)
    assert agent.run(PATH="/usr/bin:/bin") == 0
    assert agent.server.log.endswith(b"inside\n")
    assert b"set up" in agent.server.log
