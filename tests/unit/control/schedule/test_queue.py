"""Who waits, and for how long."""

from dataclasses import replace

from tests.unit.control.jobs_in_states import CANCEL, launching, lost, recovering, training, view

from anygpu.control.policy import ControlPolicy
from anygpu.control.schedule.queue import has_waited_too_long, is_waiting, waiting_since_ms


def test_a_job_wants_a_place_until_something_runs_or_somebody_cancels() -> None:
    assert is_waiting(view())
    assert is_waiting(view(*training(), lost(), recovering()))
    assert not is_waiting(view(launching()))
    assert not is_waiting(view(*training(), lost()))
    assert not is_waiting(view(CANCEL))
    assert not is_waiting(view(*training(), lost(), recovering(), CANCEL))


def test_a_job_loses_patience_after_its_time() -> None:
    job = replace(view(), submitted_at_ms=0)
    assert not has_waited_too_long(job, 300_000, ControlPolicy(reserve_after_s=300))
    assert has_waited_too_long(job, 300_001, ControlPolicy(reserve_after_s=300))


def test_it_waits_since_it_last_trained_and_no_launch_that_failed_puts_it_back() -> None:
    tried = view(launching(), lost(), recovering())
    assert waiting_since_ms(tried) == tried.submitted_at_ms
    trained = view(*training(), lost(), recovering())
    assert waiting_since_ms(trained) == trained.attempts[0].ended_at_ms
