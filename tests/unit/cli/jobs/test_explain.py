from anygpu.cli.jobs.explain import _placement_text, _prediction_lines


def test_a_running_job_has_no_actual_time() -> None:
    told = {"predicted": None, "newest": None, "actual": None}
    assert _prediction_lines(told) == ["No prediction: nothing is known about how long the job takes.", ""]


def test_an_ended_job_shows_actual_time_and_cost() -> None:
    told = {"predicted": None, "newest": None, "actual": {"seconds": 90, "cost_microusd": 2_500_000}}
    assert "Actual: 1m30s, $2.50" in _prediction_lines(told)


def test_a_started_job_does_not_show_waiting_reasons() -> None:
    choice = {
        "backend": "local",
        "name": "vm",
        "zone": "",
        "region": "",
        "configured": True,
        "interruptible": False,
        "wait": "0 of 2 CPU slots of the server's machine are free, and the job needs 1",
        "pros": ["nothing to pay"],
        "cons": [],
    }
    job = {"name": "long", "id": "1", "attempts": [{}], "backend": "local"}
    assert _placement_text(job, {"choice": choice, "strategy": "cheapest"}) == (
        "long was placed on local vm (strategy: cheapest): nothing to pay"
    )


def test_a_job_that_ended_in_the_queue_does_not_wait_for_a_machine() -> None:
    job = {"name": "long", "id": "1", "attempts": [], "phase": "ended", "status": "cancelled", "reason": ""}
    assert _placement_text(job, None) == "long never had a machine: the job was cancelled before."
    waiting = {**job, "phase": "waiting", "status": "queued", "reason": "no free slot"}
    assert _placement_text(waiting, None) == "long has no machine yet: no free slot."
