"""Why an attempt ended, in words."""

from dataclasses import replace
from typing import Any

import pytest

from anygpu.events.facts import Blame, CheckpointMark, Failure
from anygpu.events.fold import Recorded, fold
from anygpu.events.view import AttemptView, JobView
from anygpu.server.jobs.attempts import AttemptEnd, describe_end, render_attempt
from anygpu.testing.samples import jobs

NOW_MS = jobs.START_MS + 60_000


def job() -> JobView:
    view = fold(
        Recorded(organisation="lab", project="p", position=n, job_id="j", at_ms=jobs.START_MS, event=event)
        for n, event in enumerate([jobs.job_submitted(), *jobs.attempt_training()], start=1)
    )
    assert view is not None
    return view


def attempt(**fields: Any) -> AttemptView:
    return replace(job().attempts[0], **fields)


def ended(**fields: Any) -> AttemptEnd | None:
    return describe_end(job(), attempt(ended_at_ms=NOW_MS, **fields))


def lost(code: str, blame: Blame) -> dict[str, Any]:
    return {"outcome": "lost", "lost": Failure(code=code, message="as observed", blame=blame)}


def test_an_attempt_that_runs_has_no_end() -> None:
    assert describe_end(job(), attempt()) is None


@pytest.mark.parametrize(
    ("fields", "kind", "text", "notice"),
    [
        ({"outcome": "exited", "exit_code": 0}, "completed", "finished", None),
        ({"outcome": "exited", "exit_code": 3}, "failed", "exit code 3", None),
        ({"outcome": "exited", "exit_code": None, "signal": 9}, "failed", "killed by signal 9", None),
        ({"outcome": "cancelled"}, "cancelled", "cancelled", None),
        (lost("cancelled", Blame.PLATFORM), "cancelled", "cancelled", None),
        ({"outcome": "stopped"}, "interrupted", "the provider took the machine back with notice", True),
        (
            lost("preempted", Blame.PREEMPTION),
            "interrupted",
            "the provider took the machine back without notice",
            False,
        ),
        ({"outcome": "stopped", "stop_reason": "preempt", "makes_room_for": "j2"}, "interrupted", None, True),
        ({"outcome": "stopped", "stop_reason": "cheaper"}, "migrated", "moved to a better machine", None),
        (lost("migrate", Blame.PREEMPTION), "migrated", "moved on request", None),
        ({"outcome": "timeout"}, "stopped", "time limit reached", None),
        ({"outcome": "stopped", "stop_reason": "budget"}, "stopped", "budget used up", None),
        (lost("machine_lost", Blame.INFRASTRUCTURE), "lost", "the machine is gone", False),
        (lost("silent", Blame.INFRASTRUCTURE), "lost", "the machine stopped answering", False),
        (lost("no_capacity", Blame.LAUNCH), "not_started", "no machine available", None),
        ({"outcome": "failed_to_start"}, "failed", "the script could not be started", None),
    ],
)
def test_the_end_is_said_in_words(fields: dict[str, Any], kind: str, text: str | None, notice: bool) -> None:
    end = ended(**fields)
    assert end is not None
    assert (end.kind, end.notice) == (kind, notice)
    assert text in (None, end.text)


def test_an_attempt_shows_its_checkpoints_and_lost_work() -> None:
    marks = (CheckpointMark(step=4, saved_at_ms=jobs.START_MS),)
    fields = {"checkpoints_saved": 1, "checkpoint_marks": marks, "work_lost_s": 3.0, "restart_lost_s": 1.0}
    rendered = render_attempt(job(), attempt(**fields), NOW_MS)
    assert rendered["checkpoints"] == [{"step": 4, "saved_at": "2025-10-09T08:53:20.000Z"}]
    assert (rendered["work_lost_s"], rendered["restart_lost_s"]) == (3.0, 1.0)
    assert rendered["held_until"] is None
    held = render_attempt(job(), attempt(ended_at_ms=NOW_MS, held_until_ms=NOW_MS), NOW_MS)
    assert held["held_until"] == "2025-10-09T08:54:20.000Z"
