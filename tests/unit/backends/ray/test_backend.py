"""The Ray backend against a dashboard that answers as a cluster did."""

import json

import httpx
import pytest
from tests.unit.backends.ray.dashboard import (
    EXISTS,
    GPU,
    OPTIONS,
    Dashboard,
    launch,
)

from anygpu.backends.contract import HIDDEN_TICKET
from anygpu.backends.ray.api import RayClient
from anygpu.errors import BackendUnavailable, LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer


async def test_the_agent_is_uploaded_once_and_a_name_is_submitted_once() -> None:
    ray = Dashboard()
    backend = ray.backend()
    [offer] = await backend.offers(GPU)
    for _ in range(2):
        assert await backend.launch(launch(), offer) == Handle(name="anygpu-1")
    ray.records.clear()
    await backend.launch(launch(), offer)
    assert len(ray.sent("PUT")) == 1
    assert ray.sent("POST") == ["/api/jobs/"] * 2
    assert [each.name for each in await backend.inventory()] == ["anygpu-1"]
    await backend.close()


async def test_a_submission_that_another_request_won_is_no_error() -> None:
    ray = Dashboard()
    missing = httpx.Response(404, text="Job anygpu-1 does not exist")
    ray.answers["jobs"] = lambda request: (
        missing if request.method == "GET" else httpx.Response(400, text=EXISTS)
    )
    backend = ray.backend()
    assert (await backend.launch(launch(), (await backend.offers(GPU))[0])).name == "anygpu-1"
    await backend.close()


async def test_a_node_that_is_gone_has_no_capacity() -> None:
    backend = Dashboard().backend()
    with pytest.raises(NoCapacity, match="has no node '8xH100-64cpu' any more"):
        await backend.launch(launch(), Offer(backend="lab", name="8xH100-64cpu"))
    await backend.close()


async def test_a_cluster_elsewhere_needs_an_agent_listener_that_it_can_reach() -> None:
    backend = Dashboard().backend(address="http://head.example:8265")
    [offer] = await backend.offers(GPU)
    with pytest.raises(LaunchRefused, match="cannot reach the server") as refused:
        await backend.launch(launch(), offer)
    assert "server.agent_host" in str(refused.value.hint)
    await backend.close()


async def test_the_native_request_is_what_is_sent_without_the_ticket() -> None:
    ray = Dashboard()
    backend = ray.backend(token="secret-token", headers="X-Proxy: secret-header")
    [offer] = await backend.offers(GPU)
    shown = await backend.native_requests(launch(), offer)
    assert not any("secret-" in each.text or "secret-" in each.title for each in shown)
    await backend.launch(launch(), offer)
    [sent] = [each for each in ray.requests if each.method == "POST"]
    assert json.loads(sent.content.decode().replace("secret-ticket", HIDDEN_TICKET)) == json.loads(
        shown[0].text
    )
    assert (sent.headers["Authorization"], sent.headers["X-Proxy"]) == (
        "Bearer secret-token",
        "secret-header",
    )
    await backend.close()


async def test_an_address_that_is_no_dashboard_is_named_by_the_check() -> None:
    ray = Dashboard(version=lambda request: httpx.Response(200, text="<html>a shop</html>"))
    backend = ray.backend()
    status = await backend.check()
    assert (status.valid, "is not the dashboard of a Ray cluster" in status.message) == (False, True)
    with pytest.raises(BackendUnavailable):
        await RayClient(OPTIONS, transport=httpx.MockTransport(ray.answer)).version()
    await backend.close()


async def test_an_old_ray_and_an_empty_cluster_are_named_by_the_check() -> None:
    old = Dashboard(
        version=lambda request: httpx.Response(200, json={"version": "3", "ray_version": "2.2.0"})
    )
    assert "runs Ray 2.2.0" in (await old.backend().check()).message
    empty = Dashboard(v0=lambda request: httpx.Response(200, json={"data": {"result": {"result": []}}}))
    assert "no node with CPUs or GPUs" in (await empty.backend().check()).message
