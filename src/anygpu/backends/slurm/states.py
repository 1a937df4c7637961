"""Decide what the state of a Slurm job means for its attempt. Pure functions.

A Slurm job that has been restarted never runs the same attempt again: the attempt ends as preempted, its Slurm job is
cancelled, and the control loop starts another attempt.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from anygpu.backends.batch.command import NO_PYTHON_EXIT
from anygpu.backends.contract import MachineState, Observation
from anygpu.backends.slurm.options import START_LIMIT_S
from anygpu.backends.slurm.parse import SlurmJob
from anygpu.backends.slurm.script import NO_DIRECTORY_EXIT
from anygpu.events.facts import Blame, Failure

WAITING = (
    "PENDING",
    "EXPEDITING",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
)
STARTING = ("CONFIGURING", "POWER_UP_NODE")
ENDING = ("COMPLETING",)
ENDING_LIMIT_S = 120.0
RESTARTED = ("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")
# Reasons for which a waiting job never starts unless its request or its account is changed.
HOPELESS = {
    "AccountNotAllowed": "the account may not use the partition",
    "AssocMaxWallDurationPerJobLimit": "the account's longest time of a job is shorter; set the option max_run_s",
    "BadConstraints": "no node has the required features",
    "InvalidAccount": "the account does not exist",
    "InvalidQOS": "the quality of service does not exist",
    "JobHeldAdmin": "an administrator holds the job",
    "JobHeldUser": "the job is held; release it with scontrol release",
    "MaxMemPerLimit": "the partition does not allow so much memory for one job",
    "PartitionConfig": "the partition does not allow such jobs",
    "PartitionNodeLimit": "the partition does not allow so many nodes",
    "PartitionTimeLimit": "the partition's longest time of a job is shorter; set the option max_run_s",
    "QOSMaxWallDurationPerJobLimit": "the longest time of a job is shorter for this quality of service; set the option "
    "max_run_s",
    "QOSNotAllowed": "the partition does not allow this quality of service",
    "ReservationDeleted": "the reservation was deleted; correct the option sbatch_options",
    "ReservationInvalid": "the reservation cannot be used; correct the option sbatch_options",
}
# Slurm has such a reason for each kind of resource. Limits of several jobs together are not hopeless.
HOPELESS_KINDS = (
    (
        re.compile(r"(QOS|Assoc)(Max\w+Per(Job|Node)(Limit)?|Min\w+)"),
        "the account or the quality of service does not allow a job of this size",
    ),
    (
        re.compile(r"(QOS|Assoc)Grp(?!\w*RunMinutes)\w*Minutes(Limit)?"),
        "the account or the quality of service has used up its share of the cluster",
    ),
)
LAUNCH_FAILED_HOLD = "launch failed requeued held"
ENDED_TEXTS = {
    "BOOT_FAIL": "its node could not be booted",
    "CANCELLED": "it was cancelled with scancel",
    "COMPLETED": "it has ended",
    "DEADLINE": "its deadline in Slurm has passed",
    "FAILED": "it failed",
    "NODE_FAIL": "its node failed or was set down",
    "OUT_OF_MEMORY": "it used more memory than it had requested",
    "PREEMPTED": "Slurm preempted it for a job with a higher priority",
    "REVOKED": "another cluster of the federation runs it",
    "TIMEOUT": "it reached its time limit",
}

END_CODES = {
    "BOOT_FAIL": "node_failed",
    "CANCELLED": "cancelled_by_engine",
    "DEADLINE": "time_limit",
    "NODE_FAIL": "node_failed",
    "TIMEOUT": "time_limit",
}


def is_live(job: SlurmJob) -> bool:
    """Return whether the job waits or runs, or still occupies its node.

    A state that is not known here is no end: newer versions of Slurm have more states of live jobs.
    """
    return job.state not in ENDED_TEXTS


def is_restarted(job: SlurmJob) -> bool:
    """Return whether Slurm has put the job back into the queue, so that its attempt must not run again."""
    return job.restarts > 0 or job.state in RESTARTED


def choose_job(jobs: Iterable[SlurmJob]) -> SlurmJob | None:
    """Return the job that runs an attempt, if several have its name.

    A submission that seemed to fail may have succeeded. Then the first of the live jobs is the attempt's, and
    `duplicates` returns the others.
    """
    known = sorted(jobs, key=lambda job: (not is_live(job), job.id))
    live = [job for job in known if is_live(job)]
    return live[0] if live else (max(known, key=lambda job: job.id) if known else None)


def duplicates(jobs: Collection[SlurmJob]) -> list[SlurmJob]:
    """Return the live jobs that have the same name as an older live job. They are cancelled."""
    chosen = choose_job(jobs)
    return [job for job in jobs if is_live(job) and job is not chosen]


def observe(
    job: SlurmJob,
    *,
    log: Sequence[str] = (),
    cancelled_by_us: bool = False,
    ending_s: float = 0,
    start_limit_s: float = START_LIMIT_S,
) -> Observation:
    """Return what the state of a Slurm job means for its attempt.

    `log` has the last lines that it printed. `ending_s` is for how long Slurm has been ending it. Its nodes may take
    `start_limit_s` to boot.
    """
    observed = _observe_state(job, log, cancelled_by_us, ending_s)
    if job.state in STARTING:
        observed = replace(observed, start_limit_s=start_limit_s)
    return _with_billing(job, observed)


def _observe_state(job: SlurmJob, log: Sequence[str], cancelled_by_us: bool, ending_s: float) -> Observation:
    if is_live(job) and is_restarted(job):
        return Observation(
            state=MachineState.EXITED,
            preempted=True,
            detail=f"Slurm put job {job.id} back into its queue ({job.state.lower()}, {job.reason or 'no reason'}); "
            "the attempt does not run again",
        )
    if job.state in WAITING or job.state in STARTING:
        return _observe_waiting(job)
    if job.state in ENDING:
        return _observe_ending(job, ending_s)
    if not is_live(job):
        return _observe_ended(job, log, cancelled_by_us=cancelled_by_us)
    state = "" if job.state == "RUNNING" else f" ({job.state.lower()})"
    return Observation(
        state=MachineState.RUNNING, detail=f"Slurm job {job.id} runs on {job.nodes or 'a node'}{state}"
    )


def _observe_ending(job: SlurmJob, ending_s: float) -> Observation:
    """Describe a job whose processes Slurm is ending. The next state says why, unless the node cannot end them."""
    state = MachineState.RUNNING if ending_s < ENDING_LIMIT_S else MachineState.EXITED
    return Observation(state=state, detail=f"Slurm is ending job {job.id} on {job.nodes or 'its node'}")


def _observe_waiting(job: SlurmJob) -> Observation:
    hopeless = _hopeless_reason(job.reason)
    failure = None
    if hopeless:
        failure = Failure(
            code="launch_refused",
            message=f"Slurm will not start job {job.id} ({job.reason}): {hopeless}",
            blame=Blame.LAUNCH,
        )
    where = "starts" if job.state in STARTING else "waits in the queue"
    return Observation(
        state=MachineState.PENDING,
        detail=f"Slurm job {job.id} {where}" + (f": {job.reason}" if job.reason else ""),
        failure=failure,
        queued=job.state in WAITING,
    )


def _hopeless_reason(reason: str) -> str:
    if reason.lower().startswith(LAUNCH_FAILED_HOLD):
        return "its start failed on a node, and Slurm holds it"
    code = reason.partition(",")[0]
    kinds = (text for pattern, text in HOPELESS_KINDS if pattern.fullmatch(code))
    return HOPELESS.get(code) or next(kinds, "")


def _observe_ended(job: SlurmJob, log: Sequence[str], *, cancelled_by_us: bool) -> Observation:
    text = f"Slurm job {job.id}: {describe_end(job, cancelled_by_us=cancelled_by_us)}"
    detail = f"{text}; it printed: {' / '.join(log)}" if log else text
    return Observation(
        state=MachineState.GONE,
        detail=detail,
        preempted=job.state == "PREEMPTED",
        failure=_start_failure(job, detail),
        end_cause=_end_cause(job, detail),
    )


def describe_end(job: SlurmJob, *, cancelled_by_us: bool = False) -> str:
    """Return why a Slurm job ended."""
    text = ENDED_TEXTS[job.state]
    if job.state == "CANCELLED" and cancelled_by_us:
        return "anygpu cancelled it"
    if job.state == "CANCELLED" and job.by:
        text += f" by the user with number {job.by}"
    if job.signal:
        text += f", by signal {job.signal}"
    elif job.exit_code:
        text += f", with exit code {job.exit_code}"
    return text + (f" on {job.nodes}" if job.nodes else "")


def _start_failure(job: SlurmJob, detail: str) -> Failure | None:
    """Return why the agent could not start, for an attempt that no agent has claimed."""
    if job.state != "FAILED":
        return None
    if job.exit_code == NO_PYTHON_EXIT:
        hint = "Set the option python of the backend, or load a module with the option setup."
        return Failure(code="no_python", message=f"{detail}. {hint}", blame=Blame.LAUNCH)
    if job.reason == "JobLaunchFailure" or job.exit_code == NO_DIRECTORY_EXIT:
        hint = "Check that the backend's directory is on a file system that all nodes share."
        return Failure(code="launch_refused", message=f"{detail}. {hint}", blame=Blame.LAUNCH)
    return Failure(code="agent_failed", message=detail, blame=Blame.LAUNCH)


def _end_cause(job: SlurmJob, detail: str) -> Failure | None:
    """Return why a running job ended, if Slurm knows. None for a preemption, and for the end of the agent itself."""
    if job.state == "OUT_OF_MEMORY":
        hint = "Request more memory (resources.memory, --memory), or use a smaller batch size."
        return Failure(code="out_of_memory", message=f"{detail}. {hint}", blame=Blame.USER)
    code = END_CODES.get(job.state)
    return Failure(code=code, message=detail, blame=Blame.INFRASTRUCTURE) if code else None


def _with_billing(job: SlurmJob, observation: Observation) -> Observation:
    """Return the observation with start and end of the billed time. A job that never started is billed for no time."""
    if is_live(job):
        started_s = None if job.state in WAITING else job.started_s
        return replace(observation, started_at_ms=_ms(started_s))
    end_s = job.ended_s if job.ended_s is not None else job.submitted_s
    if end_s is None:
        return observation
    start_s = end_s if job.started_s is None else min(job.started_s, end_s)
    return replace(observation, started_at_ms=_ms(start_s), ended_at_ms=_ms(end_s))


def _ms(seconds: int | None) -> int | None:
    return None if seconds is None else seconds * 1000
