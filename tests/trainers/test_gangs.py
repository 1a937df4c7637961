"""Four ranks with torchrun and gloo on several hosts compute what one process does, and resume after a kill."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.trainers.ranks_job import check_resumed_after_kill, check_same_result

ROOT = Path(__file__).resolve().parents[2]
SERVER_PYTHON = ROOT / ".venv" / "bin" / "python"
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the jobs of `gang_on_hosts` computed."""
    command = [str(SERVER_PYTHON), "-m", "tests.trainers.gang_on_hosts", sys.executable]
    done = subprocess.run(
        [*command, str(tmp_path_factory.mktemp("gang"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1400,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def test_several_ranks_compute_the_same_as_one_process(ran: dict[str, Any]) -> None:
    check_same_result(ran["alone"], ran["here"], 2)
    check_same_result(ran["alone"], ran["together"], 4)


def test_all_ranks_resume_after_one_was_killed(ran: dict[str, Any]) -> None:
    check_resumed_after_kill(ran["killed_job"], ran["killed"], ran["together"])
