"""What was predicted, beside what it took: of a job that still runs, only the first."""

from anygpu.cli.jobs.explain import _placement_text, _prediction_lines


def test_a_job_that_runs_has_taken_nothing_yet() -> None:
    told = {"predicted": None, "newest": None, "actual": None}
    assert _prediction_lines(told) == ["No prediction: nothing is known about how long the job takes.", ""]


def test_a_job_that_ended_says_what_it_took() -> None:
    told = {"predicted": None, "newest": None, "actual": {"seconds": 90, "cost_microusd": 2_500_000}}
    assert "Actual: 1m30s, $2.50" in _prediction_lines(told)


def test_where_it_went_is_not_told_with_what_it_now_fills_itself() -> None:
    choice = {
        "backend": "local",
        "name": "vm",
        "zone": "",
        "region": "",
        "configured": True,
        "interruptible": False,
        "wait": "0 of 2 CPU slots here are free, the job needs 1",
        "pros": ["nothing to pay"],
        "cons": [],
    }
    job = {"name": "long", "id": "1", "attempts": [{}], "backend": "local"}
    assert _placement_text(job, {"choice": choice, "strategy": "cheapest"}) == (
        "long was placed on local vm (cheapest): nothing to pay"
    )
