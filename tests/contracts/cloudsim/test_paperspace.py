"""The simulated Paperspace API, used with plain httpx: startup scripts, hourly billing, static addresses."""

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
SCRIPT = f"#!/bin/bash\nmkdir -p ~paperspace/.ssh\necho '{PUBLIC}' >> /home/paperspace/.ssh/authorized_keys\n"
ORDER = {
    "name": "run-1",
    "machineType": "A4000",
    "templateId": "tsimu2204",
    "diskSize": 50,
    "region": "ny2",
    "publicIpType": "dynamic",
    "startOnCreate": True,
}


@pytest.fixture
async def api(sim: CloudSim) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer sim-paperspace-key"}
    async with httpx.AsyncClient(base_url=f"{sim.url('paperspace')}/v1", headers=headers, **PLAIN) as client:
        yield client


async def created(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await api.post("/machines", json=ORDER | changes)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def until(api: httpx.AsyncClient, id: str, state: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found = (await api.get(f"/machines/{id}")).json()
            if found.get("state") == state:
                return dict(found)
            await asyncio.sleep(0.02)


async def gone(api: httpx.AsyncClient, id: str) -> None:
    async with asyncio.timeout(60):
        while (await api.get(f"/machines/{id}")).status_code != 404:
            await asyncio.sleep(0.02)


async def ran(sim: CloudSim, address: str, command: str) -> str:
    """Run a command, retrying while the startup script has not yet added the key."""
    port = sim.options.ssh_port
    async with asyncio.timeout(60):
        while True:
            try:
                shell = await asyncssh.connect(
                    address, port, username="paperspace", client_keys=[MINE], known_hosts=None, config=None
                )
            except asyncssh.PermissionDenied:
                await asyncio.sleep(0.05)
                continue
            async with shell:
                return str((await shell.run(command, check=True)).stdout).strip()


async def test_a_machine_is_created_used_and_deleted(sim: CloudSim, api: httpx.AsyncClient) -> None:
    script = (await api.post("/startup-scripts", json={"name": "run-1", "script": SCRIPT})).json()
    made = await created(api, startupScriptId=script["id"])
    assert (made["state"], made["publicIp"], made["usageRate"]) == ("provisioning", None, 0.76)
    machine = await until(api, made["id"], "ready")
    assert await ran(sim, machine["publicIp"], "echo $((6 * 7))") == "42"
    answer = (await api.delete(f"/machines/{made['id']}")).json()
    assert (answer["event"]["name"], answer["data"]["id"]) == ("delete", made["id"])
    await gone(api, made["id"])
    assert (await api.get("/machines")).json() == {"hasMore": False, "items": []}


async def test_lists_come_in_pages(api: httpx.AsyncClient) -> None:
    names = {(await created(api, name=f"run-{number}"))["name"] for number in range(3)}
    first = (await api.get("/machines", params={"limit": 2})).json()
    assert (first["hasMore"], len(first["items"])) == (True, 2)
    second = (await api.get("/machines", params={"limit": 2, "after": first["nextPage"]})).json()
    assert (second["hasMore"], {each["name"] for each in first["items"] + second["items"]}) == (False, names)
    assert len((await api.get("/machines", params={"name": "run-1"})).json()["items"]) == 1


async def test_templates_and_availability_can_be_read(sim: CloudSim, api: httpx.AsyncClient) -> None:
    templates = (await api.get("/os-templates")).json()["items"]
    assert ORDER["templateId"] in {each["id"] for each in templates}
    assert {"machineTypeLabel": "A4000", "isAvailable": True} in templates[0]["availableMachineTypes"]
    query = {"machineType": "A4000", "region": "ny2"}
    assert (await api.get("/machine-availability", params=query)).json() == {"available": True}


async def test_a_machine_shuts_down_after_its_auto_shutdown_time(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    made = await created(api, autoShutdownEnabled=True, autoShutdownTimeout=2, autoShutdownForce=True)
    await until(api, made["id"], "ready")
    sim.advance(3600)
    await until(api, made["id"], "ready")
    sim.advance(3600)
    await until(api, made["id"], "off")
    [entry] = sim.billing_entries("paperspace")
    assert (entry.billed_s % 3600, entry.ended_at_ms is None) == (0, False)


async def test_a_halt_switches_the_machine_off_and_ends_billing(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    made = await created(api)
    await until(api, made["id"], "ready")
    sim.advance(5)
    sim.cloud.lifecycle.schedule_shutdown(sim.instances[made["id"]], 0)
    sim.advance(1)
    await until(api, made["id"], "off")
    sim.advance(7200)
    [entry] = sim.billing_entries("paperspace")
    assert entry.billed_s == 3600


async def test_a_static_address_outlives_its_machine(sim: CloudSim, api: httpx.AsyncClient) -> None:
    made = await created(api, publicIpType="static")
    machine = await until(api, made["id"], "ready")
    await api.delete(f"/machines/{made['id']}")
    await gone(api, made["id"])
    [address] = (await api.get("/public-ips")).json()["items"]
    assert (address["ip"], address["assignedMachineId"]) == (machine["publicIp"], None)
    assert (await api.delete(f"/public-ips/{address['ip']}")).json() == {"ip": address["ip"]}
    assert (await api.get("/public-ips")).json()["items"] == []


async def test_a_stopped_machine_is_off(api: httpx.AsyncClient) -> None:
    made = await created(api)
    await until(api, made["id"], "ready")
    assert (await api.patch(f"/machines/{made['id']}/stop")).json()["event"]["name"] == "stop"
    await until(api, made["id"], "off")


async def test_each_action_on_a_machine_is_an_event(api: httpx.AsyncClient) -> None:
    made = await created(api)
    [event] = (await api.get("/machine-events", params={"machineId": made["id"]})).json()["items"]
    assert (event["name"], event["machineId"]) == ("create", made["id"])
    assert (await api.get(f"/machine-events/{event['id']}")).json() == event


async def test_scripts_list_their_machines_but_not_their_text(api: httpx.AsyncClient) -> None:
    script = (
        await api.post("/startup-scripts", json={"name": "run-1", "script": SCRIPT, "isRunOnce": True})
    ).json()
    made = await created(api, startupScriptId=script["id"])
    [found] = (await api.get("/startup-scripts")).json()["items"]
    assert (found["assignedMachineIds"], "script" in found) == ([made["id"]], False)
    assert (await api.delete(f"/startup-scripts/{script['id']}")).json()["dtDeleted"]
    assert (await api.get(f"/startup-scripts/{script['id']}")).json()["code"] == "NOT_FOUND"


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"region": "mars"}, 400, "BAD_REQUEST"),
        ({"machineType": "Z1"}, 400, "BAD_REQUEST"),
        ({"templateId": "no"}, 404, "NOT_FOUND"),
        ({"startupScriptId": "no"}, 404, "NOT_FOUND"),
        ({"diskSize": None}, 400, "BAD_REQUEST"),
    ],
)
async def test_invalid_orders_are_rejected(
    api: httpx.AsyncClient, change: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.post("/machines", json=ORDER | change)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("no_capacity", 412, "PRECONDITION_FAILED"),
        ("quota", 403, "FORBIDDEN"),
        ("throttle", 429, "TOO_MANY_REQUESTS"),
        ("bad_credentials", 401, "UNAUTHORIZED"),
    ],
)
async def test_faults_return_the_vendors_errors(
    sim: CloudSim, api: httpx.AsyncClient, kind: str, status: int, code: str
) -> None:
    sim.inject_fault(kind, vendor="paperspace", times=1)
    answer = await api.post("/machines", json=ORDER)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["message"]


async def test_a_lost_response_leaves_a_machine(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("lost_answer", vendor="paperspace", operation="launch", times=1)
    with pytest.raises(httpx.TransportError):
        await api.post("/machines", json=ORDER)
    assert [each["name"] for each in (await api.get("/machines")).json()["items"]] == ["run-1"]


async def test_a_lagging_list_lacks_the_newest_machine(sim: CloudSim, api: httpx.AsyncClient) -> None:
    lag = sim.inject_fault("listing_lag", vendor="paperspace", seconds=30)
    await created(api)
    assert (await api.get("/machines")).json()["items"] == []
    sim.clear_faults(lag)
    assert len((await api.get("/machines")).json()["items"]) == 1


async def test_a_session_needs_a_known_key(sim: CloudSim, api: httpx.AsyncClient) -> None:
    assert (await api.get("/auth/session")).json()["team"]["namespace"] == "anygpu-sim"
    answer = await api.get("/auth/session", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")
