"""A job from a real server through a real broker to a real worker: what `make test` covers of whole jobs on workers."""

from tests.acceptance.workers.lab import Lab, assert_books_are_empty


def test_a_job_runs_on_a_worker_and_its_result_comes_back(lab: Lab) -> None:
    worker = lab.worker()
    job = lab.submit(steps=10, step_s=0)
    ended = lab.wait_completed(job)
    assert [each["offer"] for each in ended["attempts"]] == [worker.name]
    assert len(lab.model(job)) == 64
    assert_books_are_empty(lab, worker)
