from typing import Any

import pytest

from anygpu.cli.jobs.follow import JobEnding, describe_event


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def outcome(status: str, *events: dict[str, Any]) -> JobEnding:
    found = JobEnding()
    for each in events:
        found.apply(each)
    found.status = status
    return found


def test_a_completed_job_exits_with_0() -> None:
    assert outcome("completed", event("AttemptEnded", outcome="exited", exit_code=0)).process_exit_code() == 0


@pytest.mark.parametrize("code", [1, 2, 42, 125])
def test_the_exit_code_of_the_script_is_returned(code: int) -> None:
    failure = {"code": "exit_code", "message": f"the script exited with code {code}"}
    ended = event("AttemptEnded", outcome="exited", exit_code=code)
    assert outcome("failed", ended, event("JobFailed", failure=failure)).process_exit_code() == code


def test_a_signal_is_128_plus_its_number() -> None:
    ended = event("AttemptEnded", outcome="exited", exit_code=-11, signal=11)
    assert (
        outcome("failed", ended, event("JobFailed", failure={"code": "crashed"})).process_exit_code() == 139
    )


def test_a_timeout_exits_with_124() -> None:
    ended = event("AttemptEnded", outcome="timeout", exit_code=None, signal=15)
    assert (
        outcome("failed", ended, event("JobFailed", failure={"code": "timeout"})).process_exit_code() == 124
    )


def test_a_job_cancelled_elsewhere_exits_with_143() -> None:
    assert outcome("cancelled").process_exit_code() == 143


def test_a_file_saved_twice_counts_once() -> None:
    saved = [event("ArtifactSaved", artifact={"name": name}) for name in ("best.pt", "last.pt", "best.pt")]
    assert outcome("completed", *saved).artifacts == {"best.pt", "last.pt"}


def test_a_lost_job_exits_with_1() -> None:
    lost = event("AttemptLost", attempt=1, failure={"code": "lost"})
    assert (
        outcome(
            "failed", lost, event("JobFailed", failure={"code": "lost", "message": "gone"})
        ).process_exit_code()
        == 1
    )


def test_a_recovery_shows_the_step_and_the_lost_work() -> None:
    failure = {"code": "killed", "message": "the process was killed by signal 9"}
    told = describe_event(
        event("RecoveryStarted", attempt=1, failure=failure, work_lost_s=3.25, resume={"step": 40})
    )
    assert told == (
        "Attempt 1: the process was killed by signal 9; the newest checkpoint is of step 40, 3.2s and $0 of work lost."
    )


def test_a_resume_is_claimed_only_when_the_steps_show_it() -> None:
    launching = event("AttemptLaunching", attempt=2, resume={"step": 40})
    assert describe_event(launching) == "Attempt 2: the checkpoint of step 40 is restored."
    resumed = event("TrainingResumed", attempt=2, checkpoint_step=40, first_step=41)
    assert describe_event(resumed) == "Resumed from the checkpoint of step 40; the first reported step is 41."
    lost = {"work_lost_s": 720.0, "work_lost_microusd": 300_000}
    restarted = event("TrainingRestarted", attempt=2, checkpoint_step=40, first_step=1, **lost)
    assert describe_event(restarted) == (
        "Restarted from the beginning: 12m00s and $0.3000 of work lost. The checkpoint of step 40 was restored, but"
        " the first reported step is 1."
    )


def test_events_visible_elsewhere_print_no_message() -> None:
    assert [
        describe_event(event(kind)) for kind in ("TrainingStarted", "JobCompleted", "CheckpointSaved")
    ] == [
        "",
        "",
        "",
    ]
