"""The simulated Lambda API, used with plain httpx as Lambda documents it."""

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

KEY = "sim-lambda-key"
LAUNCH, TERMINATE = "/instance-operations/launch", "/instance-operations/terminate"
ORDER = {
    "region_name": "us-east-1",
    "instance_type_name": "gpu_1x_a10",
    "ssh_key_names": ["mine"],
    "name": "run-1",
}
MINE = asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
async def api(sim: CloudSim) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=f"{sim.url('lambda')}/api/v1", headers=headers, **PLAIN) as client:
        key = {"name": "mine", "public_key": MINE.export_public_key().decode()}
        assert (await client.post("/ssh-keys", json=key)).json()["data"]["name"] == "mine"
        yield client


async def launched(api: httpx.AsyncClient, **changes: Any) -> str:
    answer = await api.post(LAUNCH, json=ORDER | changes)
    assert answer.status_code == 200, answer.text
    [id] = answer.json()["data"]["instance_ids"]
    return str(id)


async def until(api: httpx.AsyncClient, id: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found = (await api.get(f"/instances/{id}")).json()["data"]
            if found["status"] == status:
                return dict(found)
            await asyncio.sleep(0.02)


async def ran(sim: CloudSim, address: str, command: str) -> str:
    port = sim.options.ssh_port
    connect = asyncssh.connect(
        address, port, username="ubuntu", client_keys=[MINE], known_hosts=None, config=None
    )
    async with connect as shell:
        return str((await shell.run(command, check=True)).stdout).strip()


async def test_a_machine_is_rented_used_and_terminated(sim: CloudSim, api: httpx.AsyncClient) -> None:
    id = await launched(api)
    assert (await api.get(f"/instances/{id}")).json()["data"]["status"] == "booting"
    machine = await until(api, id, "active")
    assert await ran(sim, machine["ip"], "echo $((6 * 7))") == "42"
    ended = (await api.post(TERMINATE, json={"instance_ids": [id]})).json()["data"]["terminated_instances"]
    assert [each["status"] for each in ended] == ["terminating"]
    await until(api, id, "terminated")
    assert not sim.live_instances()


async def test_types_have_price_specification_and_regions_with_capacity(api: httpx.AsyncClient) -> None:
    found = (await api.get("/instance-types")).json()["data"]["gpu_1x_a10"]
    assert found["instance_type"] == {
        "name": "gpu_1x_a10",
        "description": "1x A10 (24 GB PCIe)",
        "gpu_description": "A10 (24 GB PCIe)",
        "price_cents_per_hour": 129,
        "architecture": "x86_64",
        "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": 1},
    }
    assert {"name": "us-east-1", "description": "Virginia, USA"} in found["regions_with_capacity_available"]


async def test_a_second_launch_within_ten_seconds_is_throttled(sim: CloudSim, api: httpx.AsyncClient) -> None:
    await launched(api)
    answer = await api.post(LAUNCH, json=ORDER)
    assert (answer.status_code, answer.text) == (429, "error code: 1015")
    sim.advance(10)
    await launched(api)


async def test_two_launches_of_one_name_are_two_machines(sim: CloudSim, api: httpx.AsyncClient) -> None:
    await launched(api)
    sim.advance(10)
    await launched(api)
    assert [each["name"] for each in (await api.get("/instances")).json()["data"]] == ["run-1", "run-1"]


@pytest.mark.parametrize("names", [[], ["mine", "mine"], ["unheard-of"], None])
async def test_a_launch_names_exactly_one_key_that_exists(api: httpx.AsyncClient, names: Any) -> None:
    answer = await api.post(LAUNCH, json=ORDER | {"ssh_key_names": names})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "global/invalid-parameters")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"region_name": "mars-1"}, "global/invalid-parameters"),
        ({"instance_type_name": "gpu_9x_z1"}, "global/invalid-parameters"),
        ({"name": "x" * 65}, "global/invalid-parameters"),
    ],
)
async def test_invalid_orders_are_rejected_by_name(
    api: httpx.AsyncClient, change: dict[str, Any], code: str
) -> None:
    answer = await api.post(LAUNCH, json=ORDER | change)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("no_capacity", 400, "instance-operations/launch/insufficient-capacity"),
        ("quota", 400, "global/quota-exceeded"),
        ("bad_credentials", 401, "global/invalid-api-key"),
    ],
)
async def test_faults_return_lambdas_errors(
    sim: CloudSim, api: httpx.AsyncClient, kind: str, status: int, code: str
) -> None:
    sim.inject_fault(kind, vendor="lambda", times=1)
    answer = await api.post(LAUNCH, json=ORDER)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["message"]


async def test_any_call_may_be_throttled(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("throttle", vendor="lambda", operation="list", times=1)
    assert (await api.get("/instances")).status_code == 429
    assert (await api.get("/instances")).status_code == 200


async def test_a_wrong_key_is_rejected_and_basic_authentication_works(sim: CloudSim) -> None:
    async with httpx.AsyncClient(base_url=f"{sim.url('lambda')}/api/v1", **PLAIN) as nobody:
        assert (await nobody.get("/instances")).status_code == 401
        assert (await nobody.get("/instances", headers={"Authorization": "Bearer wrong"})).status_code == 401
        assert (await nobody.get("/instances", auth=(KEY, ""))).status_code == 200


async def test_a_lost_response_leaves_a_machine(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("lost_answer", vendor="lambda", operation="launch", times=1)
    with pytest.raises(httpx.TransportError):
        await api.post(LAUNCH, json=ORDER)
    assert [each["name"] for each in (await api.get("/instances")).json()["data"]] == ["run-1"]


async def test_a_lagging_list_lacks_the_newest_machine(sim: CloudSim, api: httpx.AsyncClient) -> None:
    lag = sim.inject_fault("listing_lag", vendor="lambda", seconds=30)
    await launched(api)
    assert (await api.get("/instances")).json()["data"] == []
    sim.clear_faults(lag)
    assert len((await api.get("/instances")).json()["data"]) == 1


async def test_terminated_machines_leave_the_list_after_a_while(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    await api.post(TERMINATE, json={"instance_ids": [id]})
    await until(api, id, "terminated")
    sim.advance(61)
    assert (await api.get("/instances")).json()["data"] == []
    answer = await api.get(f"/instances/{id}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "global/object-does-not-exist")


async def test_started_minutes_are_billed(sim: CloudSim, api: httpx.AsyncClient) -> None:
    id = await launched(api)
    await until(api, id, "active")
    sim.advance(90)
    await api.post(TERMINATE, json={"instance_ids": [id]})
    [entry] = sim.billing_entries("lambda")
    assert (entry.billed_s, entry.billed_microusd) == (120, 43_000)


async def test_a_machine_that_shuts_itself_down_is_unhealthy_and_still_billed(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api, user_data="#!/bin/sh\nshutdown -h now\n")
    await until(api, id, "unhealthy")
    [entry] = sim.billing_entries("lambda")
    assert entry.ended_at_ms is None


async def test_user_data_runs_at_boot(sim: CloudSim, api: httpx.AsyncClient) -> None:
    id = await launched(api, user_data="#!/bin/sh\necho hello > ~/greeting\n")
    machine = await until(api, id, "active")
    wait = "until [ -s greeting ]; do sleep 0.05; done; cat greeting"
    assert await ran(sim, machine["ip"], wait) == "hello"


async def test_keys_are_added_listed_and_deleted(api: httpx.AsyncClient) -> None:
    again = {"name": "mine", "public_key": MINE.export_public_key().decode()}
    assert (await api.post("/ssh-keys", json=again)).json()["error"]["code"] == "global/duplicate"
    made = (await api.post("/ssh-keys", json={"name": "theirs"})).json()["data"]
    assert made["private_key"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    await api.delete(f"/ssh-keys/{made['id']}")
    assert [key["name"] for key in (await api.get("/ssh-keys")).json()["data"]] == ["mine"]
