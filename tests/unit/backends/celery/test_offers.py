"""What a worker's report offers to a job."""

import pytest
from tests.unit.backends.celery.test_observe import report

from anygpu.backends.celery.messages import start_message
from anygpu.backends.celery.offers import build_offer, busy_reason, report_host
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import LaunchRequest
from anygpu.spec.sections import Resources

GPU = {"uuid": "GPU-1", "kind": "T4", "memory_gib": 16}
MACHINE = report(cpus=32, free_cpus=8, gpus=(GPU,))


@pytest.mark.parametrize(
    ("need", "is_free"),
    [({}, True), ({"cpus": 8}, True), ({"cpus": 8.5}, False), ({"gpu": 1, "cpus": 16}, True)],
)
def test_a_job_without_a_gpu_needs_cpus_that_no_other_job_has_reserved(
    need: dict[str, object], is_free: bool
) -> None:
    options = CeleryOptions(broker="redis://localhost")
    offer = build_offer(MACHINE, Resources.model_validate(need), backend="lab", options=options)
    assert (offer.cpus, offer.free) == (32, 1 if is_free else 0)


def test_the_reason_of_a_busy_machine_has_the_cpus_that_are_free() -> None:
    assert busy_reason(MACHINE, Resources(cpus=9)) == (
        "8 of 32 CPUs of the machine of the worker gpu0@lab1 are free, the job needs 9; other jobs on the machine have "
        "reserved the others"
    )


def test_a_job_that_is_larger_than_the_machine_does_not_wait_for_cpus() -> None:
    assert busy_reason(report(cpus=32, free_cpus=32), Resources(cpus=64)) == ""


def test_all_cpus_of_an_older_worker_count_as_free() -> None:
    older = report(cpus=32)
    assert busy_reason(older, Resources(cpus=32)) == ""
    assert report_host(older).free_cpus == 32


@pytest.mark.parametrize(("need", "cpus"), [({}, 1), ({"cpus": 2.5}, 3), ({"gpu": 1, "cpus": 4}, 0)])
def test_the_order_says_how_many_cpus_to_reserve(need: dict[str, object], cpus: int) -> None:
    launch = LaunchRequest(
        name=f"anygpu-{'a' * 32}-1",
        job_id="j",
        attempt=1,
        ticket="t",
        agent_url="http://server",
        resources=Resources.model_validate(need),
    )
    assert start_message(launch, "0123456789ab").cpus == cpus
