"""Error messages of Slurm: which of them are only temporary."""

import pytest

from anygpu.backends.slurm.refusals import Refusal, classify_refusal, describe_exceeded_limit

POLICY = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Unable to contact slurm controller (connect failure)", Refusal.UNREACHABLE),
        ("Socket timed out on send/recv operation", Refusal.OUTCOME_UNKNOWN),
        ("AssocMaxSubmitJobLimit", Refusal.LIMIT),
        (POLICY, Refusal.LIMIT),
        (f"QOSMaxSubmitJobPerUserLimit {POLICY}", Refusal.LIMIT),
        (f"QOSGrpSubmitJobsLimit {POLICY}", Refusal.LIMIT),
        ("Slurm temporarily unable to accept job, sleeping and retrying", Refusal.LIMIT),
        ("Invalid qos specification", Refusal.FINAL),
        ("Invalid account or account/partition combination specified", Refusal.FINAL),
        ("", Refusal.FINAL),
    ],
)
def test_temporary_messages_are_told_apart_from_final_ones(text: str, expected: Refusal) -> None:
    assert classify_refusal(text) is expected


@pytest.mark.parametrize(
    ("name", "explanation"),
    [
        ("QOSMaxWallDurationPerJobLimit", "set the option max_run_s"),
        ("QOSMaxMemoryPerJob", "does not allow a job of this size"),
        ("QOSMinGRES", "does not allow a job of this size"),
        ("QOSGrpCpuLimit", "does not allow a job of this size"),
        ("MaxGRESPerAccount", "does not allow a job of this size"),
    ],
)
def test_a_limit_that_the_job_alone_exceeds_is_final(name: str, explanation: str) -> None:
    text = f"sbatch: error: {name} sbatch: error: Batch job submission failed: {POLICY}"
    assert classify_refusal(text) is Refusal.FINAL
    assert describe_exceeded_limit(text).startswith(f"{name}: ")
    assert explanation in describe_exceeded_limit(text)


@pytest.mark.parametrize("text", ["Invalid qos specification", POLICY, f"AssocMaxSubmitJobLimit {POLICY}"])
def test_other_refusals_name_no_limit_that_the_job_alone_exceeds(text: str) -> None:
    assert describe_exceeded_limit(text) == ""
