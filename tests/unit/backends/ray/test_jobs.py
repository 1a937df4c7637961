"""Records of Ray jobs become observations."""

from typing import Any

import pytest
from tests.unit.backends.ray.dashboard import (
    RECORD,
)

from anygpu.backends.contract import MachineState
from anygpu.backends.ray.jobs import observe_job


@pytest.mark.parametrize(
    ("record", "state", "detail"),
    [
        ({}, MachineState.RUNNING, "the Ray job runs on node 9bfe8969d50d"),
        (
            {"status": "PENDING", "message": "Job has not started yet."},
            MachineState.PENDING,
            "Job has not started",
        ),
        ({"status": "STOPPED"}, MachineState.EXITED, "and not by anygpu"),
        ({"status": "SUCCEEDED"}, MachineState.EXITED, "the Ray job has ended"),
        ({"status": "FAILED", "driver_exit_code": 127}, MachineState.EXITED, "has no Python 3.9 or newer"),
        (
            {"status": "FAILED", "message": "died: x\n\ty", "error_type": "JOB_SUPERVISOR_ACTOR_DIED"},
            MachineState.EXITED,
            "the Ray job failed: died: x The node of the job, or Ray's process there, was lost.",
        ),
    ],
)
def test_a_record_is_translated(record: dict[str, Any], state: MachineState, detail: str) -> None:
    observed = observe_job({**RECORD, **record})
    assert observed.state is state
    assert detail in observed.detail


def test_the_log_of_a_job_explains_why_the_agent_did_not_start() -> None:
    log = "2026 INFO job_manager.py:581 -- x\nRunning entrypoint for job a: b\n\x1b[31mno space left\n"
    failure = observe_job({**RECORD, "status": "FAILED", "message": "failed"}, log=log).failure
    assert failure is not None
    assert (
        failure.message
        == "the Ray job failed: failed; the last lines of the Ray job:\n\\x1b[31mno space left"
    )
