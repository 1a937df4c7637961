"""The simulated CanopyWave API, used with plain httpx: machines, and addresses rented separately."""

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

PLACE = {"project": "anygpu-sim", "region": "sequoia"}
LAUNCH, TERMINATE = "/instance-operations/launch", "/instance-operations/terminate"
ORDER = PLACE | {
    "name": "run-1",
    "flavor": "H100-1",
    "image": "GPU-Ubuntu.22.04",
    "password": "S3cret!",
    "keypair": "mine",
}
MINE = asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
async def api(sim: CloudSim) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": "Bearer sim-canopywave-key"}
    async with httpx.AsyncClient(
        base_url=f"{sim.url('canopywave')}/api/v1", headers=headers, **PLAIN
    ) as client:
        key = PLACE | {"name": "mine", "publicKey": MINE.export_public_key().decode()}
        assert (await client.post("/ssh-keys", json=key)).status_code == 200
        yield client


async def launched(api: httpx.AsyncClient) -> str:
    answer = await api.post(LAUNCH, json=ORDER)
    assert answer.status_code == 200, answer.text
    assert list(answer.json()["data"]) == ["id"]
    return str(answer.json()["data"]["id"])


async def listed(api: httpx.AsyncClient) -> list[dict[str, Any]]:
    return list((await api.get("/instances", params={"project": "anygpu-sim"})).json()["data"])


async def addressed(api: httpx.AsyncClient, id: str) -> dict[str, Any]:
    ip = (await api.post("/ips", json=PLACE)).json()["data"]
    answer = await api.post(f"/ips/{ip['id']}/associate", json=PLACE | {"instanceId": id})
    assert answer.json()["data"]["ipId"] == ip["id"]
    return dict(ip)


async def booted(sim: CloudSim, id: str) -> None:
    async with asyncio.timeout(60):
        while sim.instances[id].booted_at_ms is None:
            await asyncio.sleep(0.02)


async def ended(sim: CloudSim, api: httpx.AsyncClient, id: str) -> None:
    assert (await api.post(TERMINATE, json=PLACE | {"id": id})).json() == {"data": {"id": id}}
    async with asyncio.timeout(60):
        while sim.instances[id].ended_at_ms is None:
            await asyncio.sleep(0.02)


async def test_a_machine_gets_an_address_is_used_and_terminated(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    [before] = await listed(api)
    assert (before["status"], before["publicIp"], before["launchedAt"]) == ("building", None, None)
    await booted(sim, id)
    ip = await addressed(api, id)
    [machine] = await listed(api)
    assert (machine["status"], machine["publicIp"]) == ("active", ip["ip"])
    connect = asyncssh.connect(
        ip["ip"], sim.options.ssh_port, username="ubuntu", client_keys=[MINE], known_hosts=None, config=None
    )
    async with connect as shell:
        assert str((await shell.run("echo $((6 * 7))")).stdout).strip() == "42"
    await ended(sim, api, id)
    assert await listed(api) == []


async def test_an_address_associated_during_boot_works_after_it(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    ip = await addressed(api, id)
    await booted(sim, id)
    _, writer = await asyncio.open_connection(ip["ip"], sim.options.ssh_port)
    assert writer.get_extra_info("peername")[0] == ip["ip"]
    writer.close()
    await writer.wait_closed()


async def test_details_are_openstacks_with_only_the_private_address(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    await booted(sim, id)
    await addressed(api, id)
    details = (await api.get(f"/instances/{id}", params=PLACE)).json()["data"]
    assert (details["status"], details["OS-EXT-STS:vm_state"], details["key_name"]) == (
        "ACTIVE",
        "active",
        "mine",
    )
    [[address]] = details["addresses"].values()
    assert address["addr"].startswith("172.16.")


async def test_an_address_is_billed_after_its_machine_until_it_is_released(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    ip = await addressed(api, id)
    refused = await api.delete(f"/ips/{ip['id']}", params=PLACE)
    assert refused.status_code == 409
    await ended(sim, api, id)
    [left] = (await api.get("/ips", params=PLACE)).json()["data"]
    assert left == {"id": ip["id"], "ip": ip["ip"], "server": None, "status": "DOWN"}
    sim.advance(3601)
    assert (await api.delete(f"/ips/{ip['id']}", params=PLACE)).json() == {"data": {"id": ip["id"]}}
    [address] = [entry for entry in sim.billing_entries("canopywave") if entry.kind == "address"]
    assert address.billed_s == 7200
    assert (await api.get("/ips", params=PLACE)).json() == {"data": []}


async def test_an_address_can_be_disassociated_from_a_running_machine(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    ip = await addressed(api, id)
    await booted(sim, id)
    assert (await api.delete(f"/ips/{ip['id']}/disassociate", params=PLACE)).json() == {
        "data": {"id": ip["id"]}
    }
    [machine] = await listed(api)
    assert machine["publicIp"] is None
    with pytest.raises(OSError):
        await asyncio.open_connection(ip["ip"], sim.options.ssh_port)


async def test_flavors_are_priced_in_cents_for_the_whole_machine(api: httpx.AsyncClient) -> None:
    flavors = {each["flavor"]: each for each in (await api.get("/instance-types")).json()["data"]}
    assert flavors["H100-4"] == {
        "flavor": "H100-4",
        "images": ["GPU-Ubuntu.22.04", "GPU-Ubuntu.24.04"],
        "name": "4x H100 (80 GB SXM5)",
        "price": 900,
        "priceHour": "$2.25 / gpu / hour",
        "specs": "80 cores, 800.0 GB RAM, 2048 GB NVMe",
    }


@pytest.mark.parametrize("missing", ["region", "project", "name", "flavor", "image", "password"])
async def test_each_missing_field_is_named(api: httpx.AsyncClient, missing: str) -> None:
    answer = await api.post(LAUNCH, json={name: value for name, value in ORDER.items() if name != missing})
    assert (answer.status_code, answer.json()) == (400, {"error": f"{missing} is required"})


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"region": "mars"}, 400),
        ({"flavor": "Z1-1"}, 400),
        ({"image": "CPU-Ubuntu.22.04"}, 400),
        ({"keypair": "no"}, 404),
    ],
)
async def test_invalid_orders_are_rejected(
    api: httpx.AsyncClient, change: dict[str, str], status: int
) -> None:
    answer = await api.post(LAUNCH, json=ORDER | change)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        ("no_capacity", 400, "No valid host was found. There are not enough hosts available."),
        ("quota", 403, "Quota exceeded for cores"),
        ("throttle", 429, "Too many requests"),
        ("bad_credentials", 401, "Unauthorized"),
    ],
)
async def test_faults_return_the_vendors_errors(
    sim: CloudSim, api: httpx.AsyncClient, kind: str, status: int, message: str
) -> None:
    sim.inject_fault(kind, vendor="canopywave", times=1)
    answer = await api.post(LAUNCH, json=ORDER)
    assert (answer.status_code, answer.json()) == (status, {"error": message})


async def test_a_wrong_key_is_unauthorized(sim: CloudSim) -> None:
    async with httpx.AsyncClient(base_url=f"{sim.url('canopywave')}/api/v1", **PLAIN) as nobody:
        answer = await nobody.get("/projects", headers={"Authorization": "Bearer wrong"})
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})


async def test_a_lost_response_leaves_a_billed_address(sim: CloudSim, api: httpx.AsyncClient) -> None:
    sim.inject_fault("lost_answer", vendor="canopywave", operation="allocate", times=1)
    with pytest.raises(httpx.TransportError):
        await api.post("/ips", json=PLACE)
    assert len((await api.get("/ips", params=PLACE)).json()["data"]) == 1


async def test_a_lagging_list_shows_an_ended_machine_as_running(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    await booted(sim, id)
    sim.advance(60)
    await ended(sim, api, id)
    lag = sim.inject_fault("listing_lag", vendor="canopywave", seconds=30)
    assert [each["status"] for each in await listed(api)] == ["active"]
    sim.clear_faults(lag)
    assert await listed(api) == []


async def test_started_hours_are_billed_also_of_a_machine_that_is_shut_off(
    sim: CloudSim, api: httpx.AsyncClient
) -> None:
    id = await launched(api)
    await booted(sim, id)
    sim.cloud.lifecycle.schedule_shutdown(sim.instances[id], 0)
    sim.advance(1)
    assert [each["status"] for each in await listed(api)] == ["stopped"]
    sim.advance(3600)
    await ended(sim, api, id)
    [entry] = sim.billing_entries("canopywave")
    assert (entry.billed_s, entry.billed_microusd) == (7200, 4_500_000)


async def test_keys_belong_to_a_region(api: httpx.AsyncClient) -> None:
    elsewhere = PLACE | {"region": "KEF-3"}
    [mine] = (await api.get("/ssh-keys", params=PLACE)).json()["data"]
    assert mine["keypair"]["name"] == "mine"
    assert (await api.get("/ssh-keys", params=elsewhere)).json()["data"] == []
    assert (await api.delete("/ssh-keys/mine", params=PLACE)).json() == {"data": {"name": "mine"}}
    assert (await api.delete("/ssh-keys/mine", params=PLACE)).status_code == 404
