"""What the state of a Slurm job means for its attempt."""

from typing import Any

import pytest

from anygpu.backends.contract import MachineState
from anygpu.backends.slurm.parse import SlurmJob
from anygpu.backends.slurm.states import choose_job, duplicates, observe
from anygpu.events.facts import Blame


def job(state: str, **fields: Any) -> SlurmJob:
    return SlurmJob(**{"id": 7, "name": "anygpu-x-1", "state": state, "submitted_s": 1000, **fields})


@pytest.mark.parametrize(
    ("state", "expected", "queued"),
    [
        ("PENDING", MachineState.PENDING, True),
        ("CONFIGURING", MachineState.PENDING, False),
        ("RUNNING", MachineState.RUNNING, False),
        ("SUSPENDED", MachineState.RUNNING, False),
        ("COMPLETING", MachineState.RUNNING, False),
        ("COMPLETED", MachineState.GONE, False),
        ("TIMEOUT", MachineState.GONE, False),
        ("EXPEDITING", MachineState.PENDING, True),
        ("POWER_UP_NODE", MachineState.PENDING, False),
        ("UPDATE_DB", MachineState.RUNNING, False),
        ("REVOKED", MachineState.GONE, False),
        ("BOOT_FAIL", MachineState.GONE, False),
        ("DEADLINE", MachineState.GONE, False),
        # A state of a newer Slurm is no proof that the job has ended.
        ("BRAND_NEW_STATE", MachineState.RUNNING, False),
    ],
)
def test_states(state: str, expected: MachineState, queued: bool) -> None:
    observed = observe(job(state))
    assert (observed.state, observed.queued) == (expected, queued)


@pytest.mark.parametrize("state", ["CONFIGURING", "POWER_UP_NODE"])
def test_only_a_job_whose_nodes_boot_has_a_limit_for_its_start(state: str) -> None:
    assert observe(job(state), start_limit_s=1200).start_limit_s == 1200
    assert observe(job("PENDING"), start_limit_s=1200).start_limit_s is None
    assert observe(job("RUNNING"), start_limit_s=1200).start_limit_s is None


def test_a_node_that_does_not_end_its_job_counts_as_ended_after_a_while() -> None:
    assert observe(job("COMPLETING"), ending_s=10).state is MachineState.RUNNING
    assert observe(job("COMPLETING"), ending_s=300).state is MachineState.EXITED


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"])
def test_a_restarted_job_ends_its_attempt_as_preempted(state: str) -> None:
    observed = observe(job(state, restarts=1))
    assert (observed.state, observed.preempted, observed.queued) == (MachineState.EXITED, True, False)


def test_a_preempted_job_is_told_apart_from_a_cancelled_one() -> None:
    preempted, cancelled = observe(job("PREEMPTED")), observe(job("CANCELLED", by="1001"))
    assert preempted.preempted
    assert preempted.end_cause is None
    assert not cancelled.preempted
    assert cancelled.end_cause is not None
    assert cancelled.end_cause.code == "cancelled_by_engine"
    assert "by the user with number 1001" in cancelled.detail
    assert "anygpu cancelled it" in observe(job("CANCELLED"), cancelled_by_us=True).detail


@pytest.mark.parametrize(
    ("state", "code", "blame"),
    [
        ("NODE_FAIL", "node_failed", Blame.INFRASTRUCTURE),
        ("TIMEOUT", "time_limit", Blame.INFRASTRUCTURE),
        ("OUT_OF_MEMORY", "out_of_memory", Blame.USER),
    ],
)
def test_causes_of_an_end(state: str, code: str, blame: Blame) -> None:
    cause = observe(job(state)).end_cause
    assert cause is not None
    assert (cause.code, cause.blame) == (code, blame)


def test_a_script_that_failed_before_the_agent_gives_its_output() -> None:
    failure = observe(job("FAILED", exit_code=1), log=("no such module", "bye")).failure
    assert failure is not None
    assert (failure.code, failure.blame) == ("agent_failed", Blame.LAUNCH)
    assert "it printed: no such module / bye" in failure.message
    no_python = observe(job("FAILED", exit_code=127)).failure
    assert no_python is not None
    assert no_python.code == "no_python"
    not_shared = observe(job("FAILED", reason="JobLaunchFailure")).failure
    assert not_shared is not None
    assert "file system that all nodes share" in not_shared.message


@pytest.mark.parametrize(
    ("reason", "hopeless"),
    [
        ("Resources", False),
        ("Priority", False),
        ("ReqNodeNotAvail, Reserved for maintenance", False),
        ("PartitionTimeLimit", True),
        ("launch failed requeued held", True),
        ("JobHeldAdmin", True),
        ("QOSMaxGRESPerJob", True),
        ("QOSMaxCpuPerJobLimit", True),
        ("AssocMaxNodePerJobLimit", True),
        ("QOSMinGRES", True),
        ("QOSMaxGRESPerNode", True),
        ("MaxMemPerLimit", True),
        ("ReservationDeleted", True),
        ("AssocGrpCPUMinutesLimit", True),
        ("AssocGrpBillingMinutes", True),
        ("QOSMaxGRESPerUser", False),
        ("QOSMaxJobsPerUserLimit", False),
        ("AssocGrpGRES", False),
        ("AssocGrpCPURunMinutesLimit", False),
        ("QOSGrpGRESRunMinutes", False),
        ("BeginTime", False),
    ],
)
def test_a_job_that_will_never_start_has_a_failure(reason: str, hopeless: bool) -> None:
    assert (observe(job("PENDING", reason=reason)).failure is not None) is hopeless


def test_the_time_in_the_queue_is_not_billed() -> None:
    assert observe(job("PENDING", started_s=5000)).started_at_ms is None
    never = observe(job("CANCELLED", started_s=5000, ended_s=2000))
    assert (never.started_at_ms, never.ended_at_ms) == (2_000_000, 2_000_000)
    ran = observe(job("COMPLETED", started_s=1500, ended_s=2000))
    assert (ran.started_at_ms, ran.ended_at_ms) == (1_500_000, 2_000_000)


def test_of_several_jobs_of_one_name_the_oldest_live_one_counts() -> None:
    ended, first, second = job("CANCELLED", id=3), job("RUNNING", id=5), job("PENDING", id=6)
    assert choose_job([second, ended, first]) is first
    assert duplicates([second, ended, first]) == [second]
    assert choose_job([ended]) is ended
    assert choose_job([]) is None
