"""Errors of Ray's API are translated, and say why without the credentials."""

from collections.abc import Callable

import httpx
import pytest
from tests.unit.backends.ray.dashboard import GPU, OPTIONS, RECORD, Dashboard, launch

from anygpu.backends.ray.api import RayClient
from anygpu.backends.ray.options import RayOptions
from anygpu.backends.vm.provider import CredentialsRefused, OutcomeUnknown
from anygpu.errors import BackendUnavailable, LaunchRefused, RateLimited


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CredentialsRefused), (403, CredentialsRefused), (500, OutcomeUnknown), (400, LaunchRefused)],
)
async def test_a_refused_submission_says_why_without_the_credentials(
    status: int, error: type[Exception]
) -> None:
    ray = Dashboard()
    ray.answers["jobs"] = lambda request: (
        httpx.Response(404)
        if request.method == "GET"
        else httpx.Response(status, text="Traceback\nnot secret-token\n")
    )
    backend = ray.backend(token="secret-token")
    with pytest.raises(error, match=r"not \(a credential\)"):
        await backend.launch(launch(), (await backend.offers(GPU))[0])
    await backend.close()


def client(answer: Callable[[httpx.Request], httpx.Response]) -> RayClient:
    return RayClient(OPTIONS, transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, CredentialsRefused),
        (404, LaunchRefused),
        (429, RateLimited),
        (500, BackendUnavailable),
        (503, BackendUnavailable),
    ],
)
async def test_a_read_that_fails_is_never_an_unknown_outcome(status: int, error: type[Exception]) -> None:
    ray = client(lambda request: httpx.Response(status, text="Traceback\nit failed\n"))
    with pytest.raises(error, match="it failed"):
        await ray.jobs()
    await ray.close()


async def test_a_read_is_repeated_when_the_connection_is_lost() -> None:
    tries: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url.path)
        if len(tries) == 1:
            raise httpx.ReadError("closed")
        return httpx.Response(200, json=[RECORD, "not a record"])

    ray = client(answer)
    assert await ray.jobs() == [RECORD]
    assert len(tries) == 2
    await ray.close()


async def test_a_header_that_cannot_be_sent_is_refused_without_its_value() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.LocalProtocolError("Illegal header value b'Bearer hidden\\n'")

    ray = client(answer)
    with pytest.raises(CredentialsRefused, match="characters that HTTP does not allow") as refused:
        await ray.version()
    await ray.close()
    assert "hidden" not in str(refused.value)


def test_a_file_of_certificates_that_cannot_be_read_is_named() -> None:
    options = RayOptions(address="https://head:8265", ca_file="/no/such/ca.pem")
    with pytest.raises(LaunchRefused, match=r"/no/such/ca\.pem cannot be read"):
        RayClient(options)


async def test_a_write_without_an_answer_is_not_repeated() -> None:
    tries: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        tries.append(request.url.path)
        raise httpx.ReadError("closed")

    ray = client(answer)
    with pytest.raises(OutcomeUnknown):
        await ray.stop("anygpu-1")
    assert tries == ["/api/jobs/anygpu-1/stop"]
    await ray.close()


async def test_a_job_that_ray_does_not_know_is_none_and_stopping_it_is_no_error() -> None:
    ray = client(lambda request: httpx.Response(404))
    assert await ray.job("anygpu-1") is None
    await ray.stop("anygpu-1")
    await ray.delete("anygpu-1")
    await ray.close()


@pytest.mark.parametrize("body", ["null", "[]", '{"data": 3}', '{"data": {"result": {"result": ["x"]}}}'])
async def test_an_answer_of_another_form_has_no_nodes(body: str) -> None:
    ray = client(lambda request: httpx.Response(200, text=body))
    assert await ray.nodes() == []
    await ray.close()
