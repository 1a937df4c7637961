"""The simulated RunPod API, used with plain httpx: pods by REST v2, the balance by GraphQL."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
import httpx
import pytest

from anygpu.cloudsim import CloudSim

PLAIN: dict[str, Any] = {
    "trust_env": False,
    "verify": False,
}  # loopback only: no proxies and no certificates

MINE = asyncssh.generate_private_key("ssh-ed25519")
PUBLIC = MINE.export_public_key().decode().strip()
GPU = "NVIDIA GeForce RTX 4090"
ORDER = {
    "name": "run-1",
    "image": "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404",
    "gpu": {"id": GPU, "count": 1},
    "ports": ["22/tcp"],
    "env": {"PUBLIC_KEY": PUBLIC, "GREETING": "hello"},
}


@pytest.fixture
async def api(sim: CloudSim) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer sim-runpod-key"}
    async with httpx.AsyncClient(base_url=sim.url("runpod"), headers=headers, **PLAIN) as client:
        yield client


async def created(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await api.post("/v2/pods", json=ORDER | changes)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def until(api: httpx.AsyncClient, id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found = (await api.get(f"/v2/pods/{id}")).json()
            if found["status"] == status:
                return dict(found)
            await asyncio.sleep(0.02)


async def shell(pod: dict[str, Any]) -> asyncssh.SSHClientConnection:
    direct = pod["ssh"]["direct"]
    return await asyncssh.connect(
        direct["host"],
        direct["port"],
        username=direct["username"],
        client_keys=[MINE],
        known_hosts=None,
        config=None,
    )


async def listed(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await api.get("/v2/pods")).json()["pods"])


async def asked(api: httpx.AsyncClient, query: str, **variables: Any) -> dict[str, Any]:
    answer = await api.post("/graphql", json={"query": query, "variables": variables})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def test_a_pod_is_created_used_and_deleted(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api)
    assert (pod["status"], pod["ssh"]["direct"], pod["startedAt"]) == ("PROVISIONING", None, None)
    pod = await until(api, pod["id"], "RUNNING")
    async with await shell(pod) as connection:
        said = await connection.run("echo $GREETING $RUNPOD_POD_ID")
    assert str(said.stdout).split() == ["hello", pod["id"]]
    assert (await api.delete(f"/v2/pods/{pod['id']}")).status_code == 204
    assert (await listed(api), sim.live_instances()) == ([], [])


async def test_a_deleted_pod_is_not_found_again(api: httpx.AsyncClient) -> None:
    pod = await created(api)
    await api.delete(f"/v2/pods/{pod['id']}")
    again = await api.delete(f"/v2/pods/{pod['id']}")
    assert again.headers["Content-Type"] == "application/problem+json"
    assert again.json() == {"title": "Not Found", "status": 404, "detail": "resource not found"}


async def test_a_preempted_pod_stays_listed_until_it_is_deleted(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    pod = await created(api)
    await until(api, pod["id"], "RUNNING")
    sim.preempt(pod["id"], notice_s=0)
    taken = await until(api, pod["id"], "EXITED")
    assert (taken["cost"], taken["actions"]) == (0, ["terminate"])
    assert len(await listed(api)) == 1
    assert (await api.post(f"/v2/pods/{pod['id']}/action", json={"action": "terminate"})).status_code == 204
    assert await listed(api) == []


async def test_without_a_public_key_login_fails(api: httpx.AsyncClient) -> None:
    pod = await until(api, (await created(api, env={}))["id"], "RUNNING")
    with pytest.raises(asyncssh.PermissionDenied):
        await shell(pod)


async def test_a_port_that_was_not_requested_is_not_mapped(api: httpx.AsyncClient) -> None:
    pod = await until(api, (await created(api, ports=["8888/http"]))["id"], "RUNNING")
    assert pod["ssh"]["direct"] is None


async def test_seconds_are_billed_and_the_bill_can_be_read(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api)
    await until(api, pod["id"], "RUNNING")
    sim.advance(100)
    await api.delete(f"/v2/pods/{pod['id']}")
    [entry] = sim.billing_entries("runpod")
    [record] = (await api.get("/v2/billing/pods", params={"podId": pod["id"], "bucketSize": "hour"})).json()[
        "records"
    ]
    assert record["podId"] == pod["id"]
    assert round(record["totalAmount"] * 1_000_000) == entry.billed_microusd
    assert entry.billed_microusd == round(740_000 * entry.billed_s / 3600)
    assert 100 <= entry.billed_s <= 110
    assert (await api.get("/v2/billing/pods", params={"podId": "another"})).json()["records"] == []


async def test_the_balance_falls_by_what_was_billed(sim: CloudSim, api: httpx.AsyncClient) -> None:
    before = (await asked(api, "query { myself { clientBalance currentSpendPerHr } }"))["myself"]
    await created(api)
    sim.advance(3600)
    after = (await asked(api, "{ myself { left: clientBalance currentSpendPerHr pods { name } } }"))["myself"]
    assert before == {"clientBalance": 1000, "currentSpendPerHr": 0}
    assert (after["currentSpendPerHr"], after["pods"]) == (0.74, [{"name": "run-1"}])
    assert 999.2 < after["left"] <= 999.26


async def test_a_launch_without_balance_is_rejected(sim: CloudSim, api: httpx.AsyncClient) -> None:
    await created(api, gpu={"id": "NVIDIA H100 80GB HBM3", "count": 8})
    sim.advance(40 * 3600)
    answer = await api.post("/v2/pods", json=ORDER)
    assert (answer.status_code, answer.json()["title"]) == (402, "Payment Required")


@pytest.mark.parametrize(
    "query", ["{ myself { shoeSize } }", "{ myself }", "{ myself { id }", "query", "{ : }"]
)
async def test_an_invalid_query_is_an_error(api: httpx.AsyncClient, query: str) -> None:
    answer = await api.post("/graphql", json={"query": query})
    assert (answer.status_code, "message" in answer.json()["errors"][0]) == (400, True)


async def test_the_catalog_has_prices_and_availability(api: httpx.AsyncClient) -> None:
    query = {"include": "AVAILABILITY", "product": "POD", "count": "2", "cloud": "COMMUNITY"}
    gpus = {gpu["id"]: gpu for gpu in (await api.get("/v2/catalog/gpus", params=query)).json()["gpus"]}
    assert gpus[GPU]["price"] == {"secure": 0.74, "community": 0.34}
    assert gpus[GPU]["maxCount"] == {"secure": 8, "community": 8}
    assert {"id": "US-KS-2", "name": "US-KS-2", "availability": "HIGH"} in gpus[GPU]["dataCenters"]
    assert (gpus["NVIDIA L4"]["community"], gpus["NVIDIA L4"]["availability"]) == (False, "NONE")


@pytest.mark.parametrize("query", [{"include": "AVAILABILITY"}, {"product": "POD"}])
async def test_availability_needs_a_product(api: httpx.AsyncClient, query: dict[str, str]) -> None:
    assert (await api.get("/v2/catalog/gpus", params=query)).status_code == 400


async def test_the_price_is_proportional_to_the_number_of_gpus(api: httpx.AsyncClient) -> None:
    pod = await created(api, gpu={"id": GPU, "count": 2}, cloud="COMMUNITY")
    assert (pod["gpu"]["count"], pod["cost"]) == (2, 0.68)


async def test_the_first_data_center_with_capacity_is_used(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("no_capacity", vendor="runpod", region="EU-RO-1")
    pod = await created(api, dataCenterIds=["EU-RO-1", "US-KS-2"])
    assert pod["dataCenterId"] == "US-KS-2"


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("no_capacity", 400, "no longer any instances available"),
        ("quota", 400, "spend limit"),
        ("throttle", 429, "rate limit exceeded"),
        ("bad_credentials", 401, "invalid api key"),
    ],
)
async def test_faults_return_the_vendors_errors(
    sim: CloudSim, api: httpx.AsyncClient, kind: str, status: int, words: str
) -> None:
    sim.inject_fault(kind, vendor="runpod")
    answer = await api.post("/v2/pods", json=ORDER)
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert words in answer.json()["detail"]
    assert (answer.headers.get("Retry-After") == "12") == (status == 429)


@pytest.mark.parametrize(
    "change",
    [{"gpu": None}, {"gpu": {"id": "Z1"}}, {"gpu": {"id": GPU, "count": 3}}, {"image": ""}, {"name": None}],
)
async def test_invalid_orders_are_rejected(api: httpx.AsyncClient, change: dict[str, Any]) -> None:
    answer = await api.post("/v2/pods", json=ORDER | change)
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 1)


async def test_a_lost_response_leaves_a_pod(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("lost_answer", vendor="runpod", operation="launch", times=1)
    with pytest.raises(httpx.TransportError):
        await api.post("/v2/pods", json=ORDER)
    assert [each["name"] for each in await listed(api)] == ["run-1"]


async def test_a_lagging_list_lacks_the_newest_pod(sim: CloudSim, api: httpx.AsyncClient) -> None:
    lag = sim.inject_fault("listing_lag", vendor="runpod", seconds=30)
    await created(api)
    assert await listed(api) == []
    sim.clear_faults(lag)
    assert len(await listed(api)) == 1


async def test_a_wrong_key_is_rejected_by_both_apis(api: httpx.AsyncClient) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    assert (await api.get("/v2/pods", headers=wrong)).status_code == 401
    question = {"query": "{ myself { id } }"}
    assert (await api.post("/graphql", json=question, headers=wrong)).status_code == 401


async def test_a_stopped_pod_is_no_longer_billed_and_one_that_halts_is(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    stopped, halted = await created(api), await created(api)
    await until(api, stopped["id"], "RUNNING")
    await until(api, halted["id"], "RUNNING")
    assert (await api.post(f"/v2/pods/{stopped['id']}/action", json={"action": "stop"})).status_code == 200
    sim.cloud.lifecycle.schedule_shutdown(sim.instances[halted["id"]], 0)
    sim.advance(1)
    await until(api, stopped["id"], "EXITED")
    assert (await api.get(f"/v2/pods/{halted['id']}")).json()["status"] == "RUNNING"
    over = {entry.id: entry.ended_at_ms is not None for entry in sim.billing_entries("runpod")}
    assert over == {stopped["id"]: True, halted["id"]: False}
    again = await api.post(f"/v2/pods/{stopped['id']}/action", json={"action": "stop"})
    assert again.status_code == 409
