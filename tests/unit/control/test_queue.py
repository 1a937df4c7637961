"""Who waits, and for how long."""

from dataclasses import replace

from tests.unit.control.jobs_in_states import CANCEL, launching, lost, recovering, training, view

from anygpu.control.policy import Policy
from anygpu.control.queue import is_impatient, waiting_since_ms, wants_a_place


def test_a_job_wants_a_place_until_something_runs_or_somebody_cancels() -> None:
    assert wants_a_place(view())
    assert wants_a_place(view(*training(), lost(), recovering()))
    assert not wants_a_place(view(launching()))
    assert not wants_a_place(view(*training(), lost()))
    assert not wants_a_place(view(CANCEL))
    assert not wants_a_place(view(*training(), lost(), recovering(), CANCEL))


def test_a_job_loses_patience_after_its_time() -> None:
    job = replace(view(), submitted_at_ms=0)
    assert not is_impatient(job, 300_000, Policy(patience_s=300))
    assert is_impatient(job, 300_001, Policy(patience_s=300))


def test_it_waits_since_it_last_trained_and_no_launch_that_failed_puts_it_back() -> None:
    tried = view(launching(), lost(), recovering())
    assert waiting_since_ms(tried) == tried.submitted_at_ms
    trained = view(*training(), lost(), recovering())
    assert waiting_since_ms(trained) == trained.attempts[0].ended_at_ms
