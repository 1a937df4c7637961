"""What was predicted, beside what it took: of a job that still runs, only the first."""

from anygpu.cli.explain import _predictions


def test_a_job_that_runs_has_taken_nothing_yet() -> None:
    told = {"predicted": None, "newest": None, "actual": None}
    assert _predictions(told) == ["nothing was known to predict its time from", ""]


def test_a_job_that_ended_says_what_it_took() -> None:
    told = {"predicted": None, "newest": None, "actual": {"seconds": 90, "cost_microusd": 2_500_000}}
    assert "it took 1m30s and cost $2.50" in _predictions(told)
