"""`anygpu logs --rank` of a job with several ranks on one machine."""

from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell
from tests.contracts.agent.torchrun_stand_in import install_torchrun

TRAINING = """
import os, sys
rank = int(os.environ["RANK"])
for step in range(1, 2001):
    print(f"step={step} loss={rank}.5")
if rank == 0:
    for percent in range(0, 101, 20):
        sys.stdout.write(f"\\r{percent}%")
"""


def lines_of(rank: int, *steps: int) -> bytes:
    prefix = f"[rank {rank}] " if rank else ""
    return b"".join(f"{prefix}step={step} loss={rank}.5\n".encode() for step in steps)


@pytest.fixture
def ranks(anygpu: Shell, tmp_path: Path) -> Shell:
    install_torchrun(tmp_path)
    anygpu.write("ranks.py", TRAINING)
    options = ("--launcher", "torchrun", "--set", "processes_per_node=3", "--env", f"PYTHONPATH={tmp_path}")
    anygpu("run", "--name", "ranks", *options, "ranks.py")
    return anygpu


def test_the_lines_of_a_rank_are_read_followed_and_searched(ranks: Shell) -> None:
    every, bar = range(1, 2001), b"".join(b"\r%d%%" % percent for percent in range(0, 101, 20))
    for rank in (1, 2):
        assert ranks("logs", "ranks", "--rank", str(rank)).stdout == lines_of(rank, *every)
        assert ranks("logs", "-f", "ranks", "--rank", str(rank)).stdout == lines_of(rank, *every)
    own = ranks("logs", "ranks", "--rank", "0").stdout
    assert own.replace(b"\n", b"") == (lines_of(0, *every) + bar).replace(b"\n", b"")
    assert ranks("logs", "ranks", "--rank", "2", "-n", "2").stdout == lines_of(2, 1999, 2000)
    assert ranks("logs", "-f", "ranks", "--rank", "2", "-n", "2").stdout == lines_of(2, 1999, 2000)
    assert ranks("logs", "ranks", "--rank", "2", "-n", "0").stdout == b""
    assert ranks.json("logs", "ranks", "--rank", "1", "-n", "1")["text"] == lines_of(1, 2000).decode()
    found = ranks.json("logs", "ranks", "--rank", "1", "--grep", "step=1999")["hits"]
    assert [hit["text"] for hit in found] == ["[rank 1] step=1999 loss=1.5"]
    last = ranks("logs", "ranks", "--rank", "0", "--grep", "step=", "-n", "1").stdout
    assert last.partition(b":")[2] == lines_of(0, 2000)
    assert b"its ranks are 0 to 2" in ranks("logs", "ranks", "--rank", "3", code=2).stderr
