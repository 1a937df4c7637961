"""Records of Ray jobs become observations."""

from typing import Any

import pytest
from tests.unit.backends.ray.dashboard import (
    RECORD,
)

from anygpu.backends.contract import MachineState
from anygpu.backends.ray.jobs import observe_job
from anygpu.control.reconcile.verdict import FREE_CODES
from anygpu.events.facts import Blame


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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "no_capacity"),
        ("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "no_capacity"),
        ("JOB_SUPERVISOR_ACTOR_START_FAILURE", "agent_failed"),
        ("JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE", "agent_failed"),
        ("JOB_SUPERVISOR_ACTOR_DIED", "agent_failed"),
        ("RUNTIME_ENV_SETUP_FAILURE", "agent_failed"),
        ("JOB_ENTRYPOINT_COMMAND_START_ERROR", "agent_failed"),
        ("JOB_ENTRYPOINT_COMMAND_ERROR", "agent_failed"),
        (None, "agent_failed"),
    ],
)
def test_only_a_job_that_waited_in_vain_had_no_capacity(error: str | None, code: str) -> None:
    failure = observe_job({**RECORD, "status": "FAILED", "message": "x", "error_type": error}).failure
    assert failure is not None
    assert (failure.code, failure.blame) == (code, Blame.LAUNCH)
    assert (code in FREE_CODES) is (code == "no_capacity")


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        ("FAILED", "Job supervisor actor failed to start within 900 seconds. This timeout …", "no_capacity"),
        ("FAILED", "Job supervisor actor could not be scheduled: no such node", "no_capacity"),
        ("FAILED", "Unexpected error occurred: failed to get job supervisor.", "agent_failed"),
        ("STOPPED", "Job was intentionally stopped.", "agent_failed"),
    ],
)
def test_the_message_of_an_older_ray_says_that_a_job_waited_in_vain(
    status: str, message: str, code: str
) -> None:
    failure = observe_job({**RECORD, "status": status, "message": message}).failure
    assert failure is not None
    assert failure.code == code


def test_the_log_of_a_job_explains_why_the_agent_did_not_start() -> None:
    log = "2026 INFO job_manager.py:581 -- x\nRunning entrypoint for job a: b\n\x1b[31mno space left\n"
    failure = observe_job({**RECORD, "status": "FAILED", "message": "failed"}, log=log).failure
    assert failure is not None
    assert (
        failure.message
        == "the Ray job failed: failed; the last lines of the Ray job:\n\\x1b[31mno space left"
    )
