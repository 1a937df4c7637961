"""Launches on a cluster whose API server answers with errors: what is certain afterwards, and what it costs the job."""

from collections.abc import Callable

import httpx2
import pytest
from tests.unit.backends.kubernetes.api_server import ApiServer, is_write, status
from tests.unit.backends.kubernetes.objects import launch
from tests.unit.control.jobs_in_states import launching, view

from anygpu.backends.kubernetes.attempts import KubernetesBackend
from anygpu.backends.kubernetes.cluster import AnswerLost
from anygpu.control.reconcile.verdict import Retry, Verdict, launch_failure, verdict
from anygpu.errors import BackendUnavailable, LaunchError
from anygpu.events.offers import Handle, Offer
from anygpu.events.types import AttemptLost
from anygpu.spec.sections import Resources


async def first_offer(backend: KubernetesBackend) -> Offer:
    return next(offer for offer in await backend.offers(Resources()) if offer.free)


def verdict_of(error: LaunchError) -> Verdict:
    """Return what a failed launch means for a job that has no retries."""
    lost = AttemptLost(attempt=1, evidence="", failure=launch_failure(error))
    job = view(launching(), lost, limits={"max_retries": 0})
    assert job.newest_attempt is not None
    return verdict(job, job.newest_attempt)


async def test_a_launch_creates_a_job_with_its_secret() -> None:
    api = ApiServer()
    backend = api.backend()
    handle = await backend.launch(launch(), await first_offer(backend))
    assert handle == Handle(name=launch().name, native={"namespace": "ml"})
    assert api.created == ["ConfigMap", "Job", "Secret"]
    await backend.close()


def fail_all(code: int) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda request: status(code)


def break_connection(request: httpx2.Request) -> httpx2.Response:
    raise httpx2.ReadError("closed")


def html(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, text="<html>a proxy</html>")


@pytest.mark.parametrize(
    "failing",
    [fail_all(429), fail_all(500), fail_all(503), break_connection, html],
    ids=["429", "500", "503", "connection", "proxy"],
)
async def test_a_job_outlives_an_api_server_that_answers_nothing(
    failing: Callable[[httpx2.Request], httpx2.Response],
) -> None:
    api = ApiServer()
    offer = await first_offer(earlier := api.backend())
    await earlier.close()
    api.answer = failing
    backend = api.backend()
    with pytest.raises(LaunchError) as raised:
        await backend.launch(launch(), offer)
    await backend.close()
    assert verdict_of(raised.value) == Retry(launch_failure(raised.value), counts=False)
    assert api.created == []


@pytest.mark.parametrize(("code", "failure"), [(401, "credentials_refused"), (403, "cluster_access")])
async def test_a_job_waits_until_the_backend_has_a_valid_token_and_its_rights(
    code: int, failure: str
) -> None:
    api = ApiServer(lambda request: status(code, "not allowed") if request.method == "POST" else None)
    backend = api.backend()
    with pytest.raises(LaunchError) as raised:
        await backend.launch(launch(), await first_offer(backend))
    await backend.close()
    assert launch_failure(raised.value).code == failure
    assert verdict_of(raised.value) == Retry(launch_failure(raised.value), counts=False)


@pytest.mark.parametrize(
    ("kind", "code", "error", "created"),
    [
        ("configmaps", 503, BackendUnavailable, []),
        ("jobs", 429, BackendUnavailable, ["ConfigMap"]),
        ("jobs", 503, AnswerLost, ["ConfigMap"]),
        ("secrets", 429, AnswerLost, ["ConfigMap", "Job"]),
    ],
)
async def test_the_outcome_is_unknown_only_if_a_job_may_have_been_created(
    kind: str, code: int, error: type[Exception], created: list[str]
) -> None:
    api = ApiServer(lambda request: status(code) if is_write(request, kind) else None)
    backend = api.backend()
    with pytest.raises(error, match=f"status {code}"):
        await backend.launch(launch(), await first_offer(backend))
    assert api.created == created
    await backend.close()


async def test_the_outcome_is_unknown_if_a_job_exists_that_cannot_be_read() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response | None:
        if is_write(request, "jobs"):
            return status(409, "exists")
        return status(503) if request.url.path.endswith(launch().name) else None

    backend = ApiServer(answer).backend()
    with pytest.raises(AnswerLost):
        await backend.launch(launch(), await first_offer(backend))
    await backend.close()
