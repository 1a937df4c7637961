"""Who is next."""

from dataclasses import replace

from tests.unit.control.jobs_in_states import CANCEL, launching, lost, recovering, training, view

from anygpu.control.policy import Policy
from anygpu.control.queue import in_order, is_impatient, queue_positions, wants_a_place
from anygpu.events.view import JobView

POLICY = Policy(aging_s=600, patience_s=300)


def waiting(name: str, *, submitted_s: float = 0, priority: int = 0) -> JobView:
    return replace(view(priority=priority), id=name, submitted_at_ms=int(submitted_s * 1000))


def order(*jobs: JobView, now_s: float = 0) -> list[str]:
    return [job.id for job in in_order(jobs, int(now_s * 1000), POLICY)]


def test_a_job_wants_a_place_until_something_runs_or_somebody_cancels() -> None:
    assert wants_a_place(view())
    assert wants_a_place(view(*training(), lost(), recovering()))
    assert not wants_a_place(view(launching()))
    assert not wants_a_place(view(*training(), lost()))
    assert not wants_a_place(view(CANCEL))
    assert not wants_a_place(view(*training(), lost(), recovering(), CANCEL))


def test_the_more_important_job_is_first_then_the_one_that_came_first() -> None:
    jobs = [waiting("late", submitted_s=2), waiting("early"), waiting("urgent", submitted_s=3, priority=1)]
    assert order(*jobs, now_s=4) == ["urgent", "early", "late"]


def test_waiting_raises_a_job_above_newer_ones() -> None:
    jobs = [waiting("humble"), waiting("urgent", submitted_s=1201, priority=1)]
    assert order(*jobs, now_s=599) == ["urgent", "humble"]
    assert order(*jobs, now_s=1202) == ["humble", "urgent"]


def test_a_wall_clock_set_back_ages_nobody() -> None:
    assert order(waiting("a", submitted_s=5000), waiting("b", submitted_s=6000), now_s=0) == ["a", "b"]


def test_a_job_loses_patience_after_its_time() -> None:
    job = waiting("job")
    assert not is_impatient(job, 300_000, POLICY)
    assert is_impatient(job, 300_001, POLICY)


def test_positions_count_from_one() -> None:
    assert queue_positions([waiting("a"), waiting("b")]) == {"a": 1, "b": 2}
