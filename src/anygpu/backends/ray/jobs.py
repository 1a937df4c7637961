"""What the record of a Ray job says about its attempt. Pure functions."""

from collections.abc import Mapping
from typing import Any

from anygpu.backends.batch.command import NO_PYTHON_EXIT
from anygpu.backends.contract import MachineState, Observation
from anygpu.errors import NoCapacity
from anygpu.events.facts import Blame, Failure
from anygpu.printable import printable

PENDING, RUNNING, STOPPED, SUCCEEDED, FAILED = "PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"
ENDED = (STOPPED, SUCCEEDED, FAILED)
LOG_LINES = 15
LINE_LIMIT = 300
# How Ray names that a job did not get its resources. Older versions of Ray say so only in the message.
NO_RESOURCES = ("JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE")
NO_RESOURCES_MESSAGES = (
    "Job supervisor actor failed to start within",
    "Job supervisor actor could not be scheduled",
)
# What to do about the failures that Ray names in `error_type`.
ADVICE = {
    "RUNTIME_ENV_SETUP_FAILURE": "Check the log of the runtime environment agent on the node "
    "(runtime_env_setup-*.log), and the free disk space there.",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "The cluster did not have the resources in time. `ray status` shows what "
    "is free and what waits.",
    "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": "No node of the cluster has the resources. `ray status` shows what it has.",
    "JOB_SUPERVISOR_ACTOR_DIED": "The node of the job, or Ray's process there, was lost.",
}


def is_ended(job: Mapping[str, Any]) -> bool:
    return job.get("status") in ENDED


def observe_job(job: Mapping[str, Any], *, log: str = "", was_stopped: bool = False) -> Observation:
    """Return what a job's record says about its attempt.

    `log` is the output of the job, which explains why an agent did not start. `was_stopped`: this server asked Ray to
    stop the job.
    """
    status = job.get("status")
    message = _first_line(str(job.get("message") or ""))
    if status == PENDING:
        return Observation(
            state=MachineState.PENDING, detail=f"the Ray job is pending: {message}", queued=True
        )
    if status == RUNNING:
        node = str(job.get("driver_node_id") or "")[:12]
        return Observation(
            state=MachineState.RUNNING, detail=f"the Ray job runs{f' on node {node}' if node else ''}"
        )
    detail = _end_detail(job, message, was_stopped=was_stopped)
    return Observation(
        state=MachineState.EXITED,  # until its record is deleted
        detail=detail,
        ended_at_ms=_milliseconds(job.get("end_time")),
        failure=_start_failure(job, detail, log),
    )


def _end_detail(job: Mapping[str, Any], message: str, *, was_stopped: bool) -> str:
    if job.get("status") == STOPPED:
        return "the Ray job was stopped" + ("" if was_stopped else ", and not by anygpu")
    if job.get("status") == SUCCEEDED:
        return "the Ray job has ended"
    code = job.get("driver_exit_code")
    if code == NO_PYTHON_EXIT:
        return "the node of the Ray job has no Python 3.9 or newer; set the backend's option `python`"
    advice = ADVICE.get(str(job.get("error_type")), "")
    return f"the Ray job failed: {message}" + (f" {advice}" if advice else "")


def _start_failure(job: Mapping[str, Any], detail: str, log: str) -> Failure:
    """Return why the agent will not run. It counts only if no agent has claimed the attempt.

    A job that waited in Ray's queue for too long has not failed: it had no capacity, and uses up no retry.
    """
    tail = last_lines(log or str(job.get("message") or ""))
    text = f"{detail}; the last lines of the Ray job:\n{tail}" if tail else detail
    code = NoCapacity.code if _has_waited_in_vain(job) else "agent_failed"
    return Failure(code=code, message=text, blame=Blame.LAUNCH)


def _has_waited_in_vain(job: Mapping[str, Any]) -> bool:
    """Return whether Ray failed the job because it did not get its resources."""
    if job.get("status") != FAILED:
        return False
    error, message = job.get("error_type"), str(job.get("message") or "")
    return error in NO_RESOURCES or (not error and message.startswith(NO_RESOURCES_MESSAGES))


def last_lines(log: str) -> str:
    """Return the last lines of a job's output that are not Ray's own, made safe for terminals."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    own = ("Running entrypoint for job", "Job entrypoint command failed")
    kept = [line for line in lines if "job_manager.py:" not in line and not line.startswith(own)]
    return "\n".join(printable(line[:LINE_LIMIT]) for line in kept[-LOG_LINES:])


def _first_line(text: str) -> str:
    return printable(text.strip().partition("\n")[0][:LINE_LIMIT])


def _milliseconds(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None
