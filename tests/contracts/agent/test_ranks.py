"""Several processes on one machine, with a program that starts them like torchrun.

`tests/trainers/test_rank_output.py` does the same with the real torchrun.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.torchrun_stand_in import install_torchrun

Play = Callable[..., Agent]

PREFIXES = [f"[rank {rank}] " for rank in (1, 2)]


@pytest.fixture
def launch(play: Play, tmp_path: Path) -> Callable[..., Agent]:
    """launch(code) -> an agent that starts the code in three processes."""
    install_torchrun(tmp_path)

    def build(code: str = "", **work: Any) -> Agent:
        ranks = {"node": 0, "nodes": 1, "launcher": "torchrun", "processes_per_node": 3}
        if code:
            work["code"] = f"import os, signal, sys, time\nrank = int(os.environ['RANK'])\n{code}"
        return play({"ranks": ranks, "env": {"PYTHONPATH": str(tmp_path)}, **work})

    return build


def test_metrics_and_progress_are_those_of_rank_0(launch: Callable[..., Agent]) -> None:
    agent = launch("for s in range(1, 6): print(f'Epoch {s}/{5 + rank} loss={s + 10 * rank}', flush=True)")
    assert agent.run() == 0
    assert [point[1:2] + point[3:] for point in agent.server.points()] == [[s, float(s)] for s in range(1, 6)]
    assert agent.server.of_kind("progress")[-1]["epochs"] == 5
    lines = bytes(agent.server.log).decode().splitlines()
    for rank, prefix in enumerate(("", *PREFIXES)):
        own = [line for line in lines if line.startswith(prefix or "Epoch")]
        assert own == [f"{prefix}Epoch {s}/{5 + rank} loss={s + 10 * rank}" for s in range(1, 6)]


def test_binary_output_and_progress_bars_of_rank_0_are_delivered_unchanged(
    launch: Callable[..., Agent],
) -> None:
    code = """
if rank == 0:
    os.write(1, bytes(range(256)) * 1000)
    for percent in range(0, 101, 10):
        os.write(2, b"\\r%3d%%|###| %d/100 [00:01<00:01, 9it/s, loss=%d]" % (percent, percent, percent))
"""
    agent = launch(code)
    assert agent.run() == 0
    bars = b"".join(
        b"\r%3d%%|###| %d/100 [00:01<00:01, 9it/s, loss=%d]" % (each, each, each)
        for each in range(0, 101, 10)
    )
    assert bytes(agent.server.log) == bytes(range(256)) * 1000 + bars
    assert agent.server.points()[-1][3] == 100


def test_a_secret_is_masked_in_the_output_of_every_rank(launch: Callable[..., Agent]) -> None:
    agent = launch("print('key', os.environ['TOKEN'])", secrets={"TOKEN": "sk-0123456789abcdef"})
    assert agent.run() == 0
    assert sorted(bytes(agent.server.log).splitlines()) == [
        b"[rank 1] key ***",
        b"[rank 2] key ***",
        b"key ***",
    ]


@pytest.mark.parametrize(
    ("end", "code", "what"),
    [
        ("sys.exit(3)", 3, "failed with exit code 3"),
        ("os.kill(os.getpid(), 9)", 137, "was killed by signal 9"),
    ],
)
def test_the_last_words_and_the_exit_code_of_a_failed_rank_are_reported(
    launch: Callable[..., Agent], end: str, code: int, what: str
) -> None:
    agent = launch(f"if rank == 2:\n    print('last words')\n    {end}\ntime.sleep(60)")
    assert agent.run() == 0
    assert b"[rank 2] last words\n" in agent.server.log
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == code
    assert agent.server.end["message"] == f"a process of torchrun {what}"


SLOW_TO_STOP = """
asked = []
def stop(*_):
    asked.append(1)
    print("stopping", flush=True)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while len(asked) < 2:
    if rank == 2 and os.path.exists(os.environ["ANYGPU_DIR"] + "/kill"):
        os.kill(os.getpid(), 9)
    time.sleep(0.05)
sys.exit(1)
"""


def test_a_killed_rank_is_reported_although_another_node_has_failed_before(
    launch: Callable[..., Agent],
) -> None:
    agent = launch(SLOW_TO_STOP, grace_s=20)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"ready\n") == 3)
    (agent.directory / "channel" / "kill").touch()
    agent.server.wait_for(lambda: agent.server.log.count(b"stopping\n") == 2)
    agent.server.order({"kind": "stop", "reason": "peer"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert (agent.server.end["outcome"], agent.server.end["exit_code"]) == ("exited", 137)
    assert agent.server.end["message"] == "a process of torchrun was killed by signal 9"


def test_a_cancelled_job_is_stopped_and_what_its_ranks_print_then_arrives(
    launch: Callable[..., Agent],
) -> None:
    code = """
def stop(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""
    agent = launch(code, grace_s=20)
    agent.start()
    agent.server.wait_for(lambda: agent.server.log.count(b"ready\n") == 3)
    agent.server.order({"kind": "cancel"})
    assert agent.finish() == 0
    assert agent.server.end is not None
    assert agent.server.end["outcome"] == "cancelled"
    assert {b"saved", b"[rank 1] saved", b"[rank 2] saved"} <= set(bytes(agent.server.log).splitlines())


def test_programs_get_their_output_signals_as_usual(launch: Callable[..., Agent]) -> None:
    agent = launch(argv=["/bin/sh", "-c", "yes $RANK | head -n 1; exit 0"])
    assert agent.run() == 0
    assert sorted(bytes(agent.server.log).splitlines()) == [b"0", b"[rank 1] 1", b"[rank 2] 2"]


def test_a_program_that_is_not_there_is_named(launch: Callable[..., Agent]) -> None:
    agent = launch(argv=["no-such-program"])
    assert agent.run() == 0
    assert b"the program 'no-such-program' cannot be started" in agent.server.log
    assert agent.server.end is not None
    assert agent.server.end["exit_code"] == 127
