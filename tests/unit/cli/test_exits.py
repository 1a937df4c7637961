import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from anygpu.cli import exits
from anygpu.cli.follow import Outcome, remark_on
from anygpu.errors import Internal, InvalidSpec, NoCapacity, NotFound, Problem, ServerUnreachable, every_error
from anygpu.sdk.embedded import ServerFailed
from anygpu.sdk.job import JobFailed
from anygpu.settings import InvalidSettings


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


def outcome(status: str, *events: dict[str, Any]) -> Outcome:
    found = Outcome()
    for each in events:
        found.take(each)
    found.status = status
    return found


def test_a_completed_job_is_zero() -> None:
    assert outcome("completed", event("AttemptEnded", outcome="exited", exit_code=0)).code() == 0


@pytest.mark.parametrize("code", [1, 2, 42, 125])
def test_the_scripts_own_code_is_passed_on(code: int) -> None:
    failure = {"code": "exit_code", "message": f"the script exited with code {code}"}
    ended = event("AttemptEnded", outcome="exited", exit_code=code)
    assert outcome("failed", ended, event("JobFailed", failure=failure)).code() == code


def test_a_signal_is_told_as_shells_tell_it() -> None:
    ended = event("AttemptEnded", outcome="exited", exit_code=-11, signal=11)
    assert outcome("failed", ended, event("JobFailed", failure={"code": "crashed"})).code() == 139


def test_time_that_ran_out_is_124() -> None:
    ended = event("AttemptEnded", outcome="timeout", exit_code=None, signal=15)
    assert outcome("failed", ended, event("JobFailed", failure={"code": "timeout"})).code() == 124


def test_a_job_cancelled_elsewhere_is_143() -> None:
    assert outcome("cancelled").code() == 143


def test_a_file_saved_twice_is_one_to_fetch() -> None:
    saved = [event("ArtifactSaved", artifact={"name": name}) for name in ("best.pt", "last.pt", "best.pt")]
    assert outcome("completed", *saved).artifacts == {"best.pt", "last.pt"}


def test_a_job_lost_without_a_word_is_1() -> None:
    lost = event("AttemptLost", attempt=1, failure={"code": "lost"})
    assert (
        outcome("failed", lost, event("JobFailed", failure={"code": "lost", "message": "gone"})).code() == 1
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), 66),
        (InvalidSpec([Problem("a", 1, "wrong")]), 65),
        (ServerUnreachable(), 69),
        (NoCapacity(), 75),
        (Internal("x"), 70),
        (click.UsageError("x"), 2),
        (KeyboardInterrupt(), 130),
        (FileNotFoundError(2, "No such file", "a.txt"), 1),
        (ValueError("odd"), 70),
    ],
)
def test_each_kind_of_failure_has_its_code_and_no_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.report(error) == code
    said = capsys.readouterr().err
    assert said.startswith("anygpu: ")
    assert "Traceback" not in said


def test_every_code_given_to_an_error_is_that_of_an_error_there_is() -> None:
    elsewhere = {JobFailed.code, ServerFailed.code, InvalidSettings.code}
    assert set(exits.BY_ERROR) <= {kind.code for kind in every_error()} | elsewhere


def test_a_recovery_tells_from_where_and_what_it_cost() -> None:
    failure = {"code": "killed", "message": "the process was killed (signal 9)"}
    told = remark_on(
        event("RecoveryStarted", attempt=1, failure=failure, work_lost_s=3.25, resume={"step": 40})
    )
    assert told == "attempt 1: the process was killed (signal 9); resuming from step 40, 3.2s of work lost"


def test_what_is_seen_anyway_needs_no_remark() -> None:
    assert [remark_on(event(kind)) for kind in ("TrainingStarted", "JobCompleted", "CheckpointSaved")] == [
        "",
        "",
        "",
    ]


def test_a_usage_error_is_a_whole_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    exits.report(click.BadParameter("'long' is not a duration", param_hint="--work"))
    assert capsys.readouterr().err.endswith("'long' is not a duration. Try `anygpu --help`.\n")


def test_ctrl_c_while_the_command_is_imported_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-m", "anygpu.cli.main", "ls"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_several_near_options_end_the_sentence_once(capsys: pytest.CaptureFixture[str]) -> None:
    error = click.NoSuchOption("--gpuu", possibilities=["--gpu", "--cpus"])
    assert exits.report(error) == 2
    assert "?)." not in capsys.readouterr().err
