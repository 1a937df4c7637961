"""A plain httpx script against the simulator's RunPod: pods by REST, prices and balance by GraphQL."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncssh
import httpx
import pytest

from anygpu.testing.cloud import CloudSim, SimOptions, Timing

MINE = asyncssh.generate_private_key("ssh-ed25519")
PUBLIC = MINE.export_public_key().decode().strip()
GPU = "NVIDIA GeForce RTX 4090"
ORDER = {
    "name": "run-1",
    "imageName": "runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04",
    "gpuTypeIds": [GPU],
    "cloudType": "SECURE",
    "ports": ["22/tcp"],
    "env": {"PUBLIC_KEY": PUBLIC, "GREETING": "hello"},
}


@pytest.fixture
async def sim() -> AsyncIterator[CloudSim]:
    async with CloudSim(SimOptions(timing=Timing(boot_s=0.1, ending_s=0.1))) as running:
        yield running


@pytest.fixture
async def api(sim: CloudSim) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer sim-runpod-key"}
    async with httpx.AsyncClient(base_url=sim.url("runpod"), headers=headers) as client:
        yield client


async def created(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await api.post("/v1/pods", json=ORDER | changes)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def booted(sim: CloudSim, id: str) -> None:
    async with asyncio.timeout(10):
        while sim.instances[id].booted_at_ms is None:
            await asyncio.sleep(0.02)


async def ended(sim: CloudSim, id: str) -> None:
    async with asyncio.timeout(10):
        while sim.instances[id].ended_at_ms is None:
            await asyncio.sleep(0.02)


async def asked(api: httpx.AsyncClient, query: str, **variables: Any) -> dict[str, Any]:
    answer = await api.post("/graphql", json={"query": query, "variables": variables})
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def test_a_pod_is_created_used_and_deleted(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api)
    assert (pod["desiredStatus"], pod["publicIp"], pod["portMappings"]) == ("RUNNING", "", {})
    await booted(sim, pod["id"])
    pod = (await api.get(f"/v1/pods/{pod['id']}")).json()
    connect = asyncssh.connect(
        pod["publicIp"],
        pod["portMappings"]["22"],
        username="root",
        client_keys=[MINE],
        known_hosts=None,
        config=None,
    )
    async with connect as shell:
        assert str((await shell.run("echo $GREETING $RUNPOD_POD_ID")).stdout).split() == ["hello", pod["id"]]
    assert (await api.delete(f"/v1/pods/{pod['id']}")).status_code == 204
    await ended(sim, pod["id"])
    assert (await api.get("/v1/pods")).json() == []


async def test_a_deleted_pod_is_not_found_to_terminate_again(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api)
    await api.delete(f"/v1/pods/{pod['id']}")
    again = await api.delete(f"/v1/pods/{pod['id']}")
    assert (again.status_code, again.json()) == (404, {"error": "pod not found to terminate", "status": 404})


async def test_an_interruptible_pod_that_is_taken_stays_listed_until_it_is_deleted(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    pod = await created(api, interruptible=True)
    assert (pod["interruptible"], pod["costPerHr"]) == (True, 0.38)
    await booted(sim, pod["id"])
    sim.preempt(pod["id"], notice_s=0)
    await ended(sim, pod["id"])
    [taken] = (await api.get("/v1/pods")).json()
    assert (taken["desiredStatus"], taken["portMappings"]) == ("EXITED", {})
    assert (await api.delete(f"/v1/pods/{pod['id']}")).status_code == 204
    assert (await api.get("/v1/pods")).json() == []


async def test_without_a_public_key_nobody_can_log_in(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api, env={})
    await booted(sim, pod["id"])
    pod = (await api.get(f"/v1/pods/{pod['id']}")).json()
    with pytest.raises(asyncssh.PermissionDenied):
        await asyncssh.connect(
            pod["publicIp"],
            pod["portMappings"]["22"],
            username="root",
            client_keys=[MINE],
            known_hosts=None,
            config=None,
        )


async def test_seconds_are_billed_and_the_bill_can_be_read(sim: CloudSim, api: httpx.AsyncClient) -> None:
    pod = await created(api)
    await booted(sim, pod["id"])
    sim.advance(100)
    await api.delete(f"/v1/pods/{pod['id']}")
    [entry] = sim.books("runpod")
    [record] = (await api.get("/v1/billing/pods", params={"grouping": "podId", "podId": pod["id"]})).json()
    assert record["podId"] == pod["id"]
    assert (
        round(record["amount"] * 1_000_000) == entry.billed_microusd == round(740_000 * entry.billed_s / 3600)
    )
    assert (record["timeBilledMs"], entry.billed_s >= 100) == (entry.billed_s * 1000, True)
    by_gpu = (await api.get("/v1/billing/pods", params={"bucketSize": "hour"})).json()
    assert [each["gpuTypeId"] for each in by_gpu] == [GPU]


async def test_the_balance_falls_by_what_was_billed(sim: CloudSim, api: httpx.AsyncClient) -> None:
    before = (await asked(api, "query { myself { clientBalance currentSpendPerHr } }"))["myself"]
    await created(api)
    sim.advance(3600)
    after = (await asked(api, "{ myself { clientBalance currentSpendPerHr } }"))["myself"]
    assert before == {"clientBalance": 1000, "currentSpendPerHr": 0}
    assert after["currentSpendPerHr"] == 0.74
    assert 999.2 < after["clientBalance"] <= 999.26


async def test_prices_and_stock_are_asked_by_graphql(api: httpx.AsyncClient) -> None:
    query = """
      query Prices($id: String!) {
        gpuTypes(input: {id: $id}) {
          id memoryInGb securePrice communityPrice
          lowestPrice(input: {gpuCount: 1, secureCloud: true}) { uninterruptablePrice minimumBidPrice stockStatus }
        }
      }"""
    [gpu] = (await asked(api, query, id=GPU))["gpuTypes"]
    assert gpu == {
        "id": GPU,
        "memoryInGb": 24,
        "securePrice": 0.74,
        "communityPrice": 0.34,
        "lowestPrice": {"uninterruptablePrice": 0.74, "minimumBidPrice": 0.38, "stockStatus": "High"},
    }


@pytest.mark.parametrize("query", ["{ myself { shoeSize } }", "{ gpuTypes }", "{ myself { id }", "query"])
async def test_a_query_that_is_wrong_is_an_error(api: httpx.AsyncClient, query: str) -> None:
    answer = await api.post("/graphql", json={"query": query})
    assert (answer.status_code, "message" in answer.json()["errors"][0]) == (400, True)


async def test_several_gpus_cost_several_times(api: httpx.AsyncClient) -> None:
    pod = await created(api, gpuCount=2, cloudType="COMMUNITY")
    assert (pod["gpu"]["count"], pod["costPerHr"]) == (2, 0.68)


async def test_the_first_gpu_type_that_can_be_had_is_rented(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.fault("no_capacity", vendor="runpod", type=GPU)
    pod = await created(api, gpuTypeIds=[GPU, "NVIDIA A40"])
    assert pod["gpu"]["id"] == "NVIDIA A40"


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("no_capacity", 500, "create pod: There are no instances currently available"),
        ("quota", 500, "create pod: You have exceeded your spend limit. Contact support to increase it."),
        ("throttle", 429, "Too many requests"),
        ("bad_credentials", 401, "Unauthorized"),
    ],
)
async def test_faults_speak_the_vendors_language(
    sim: CloudSim, api: httpx.AsyncClient, kind: str, status: int, message: str
) -> None:
    sim.fault(kind, vendor="runpod")
    answer = await api.post("/v1/pods", json=ORDER)
    assert (answer.status_code, answer.json()) == (status, {"error": message, "status": status})


@pytest.mark.parametrize(
    "change", [{"gpuTypeIds": ["Z1"]}, {"gpuTypeIds": []}, {"imageName": ""}, {"gpuCount": 3}]
)
async def test_what_cannot_be_ordered_is_refused(api: httpx.AsyncClient, change: dict[str, Any]) -> None:
    answer = await api.post("/v1/pods", json=ORDER | change)
    assert (answer.status_code, answer.json()["status"]) == (400, 400)


async def test_a_lost_answer_leaves_a_pod(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.fault("lost_answer", vendor="runpod", operation="launch", times=1)
    with pytest.raises(httpx.TransportError):
        await api.post("/v1/pods", json=ORDER)
    assert [each["name"] for each in (await api.get("/v1/pods", params={"name": "run-1"})).json()] == [
        "run-1"
    ]


async def test_a_list_that_lags_lacks_the_newest_pod(sim: CloudSim, api: httpx.AsyncClient) -> None:
    lag = sim.fault("listing_lag", vendor="runpod", seconds=30)
    await created(api)
    assert (await api.get("/v1/pods")).json() == []
    sim.lift(lag)
    assert len((await api.get("/v1/pods")).json()) == 1


async def test_a_wrong_key_is_refused_on_both_faces(api: httpx.AsyncClient) -> None:
    wrong = {"Authorization": "Bearer wrong"}
    assert (await api.get("/v1/pods", headers=wrong)).status_code == 401
    question = {"query": "{ myself { id } }"}
    assert (await api.post("/graphql", json=question, headers=wrong)).status_code == 401


async def test_a_pod_stopped_by_the_api_is_no_longer_billed_and_one_that_halts_is(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    stopped, halted = await created(api), await created(api)
    await booted(sim, stopped["id"])
    await booted(sim, halted["id"])
    assert (await api.post(f"/v1/pods/{stopped['id']}/stop")).status_code == 200
    sim.cloud.lifecycle.power_off(sim.instances[halted["id"]], 0)
    sim.advance(1)
    over = {entry.id: entry.ended_at_ms is not None for entry in sim.books("runpod")}
    assert over == {stopped["id"]: True, halted["id"]: False}
