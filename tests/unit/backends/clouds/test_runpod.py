"""RunPod's own shapes (docs.runpod.io/api-reference-v2) and ours."""

from typing import Any

import pytest
from tests.unit.backends.clouds.fake_api import KEY, NAME, FarEnd, order

from anygpu.backends.clouds.runpod import IMAGE, Options, RunPodProvider
from anygpu.backends.vm.provider import CloudMachine, MeteredProvider, PowerState
from anygpu.errors import LaunchRefused, NoCapacity, RateLimited
from anygpu.events.offers import Billing
from anygpu.spec.sections import Gpu, Resources

RTX = {
    "id": "NVIDIA GeForce RTX 4090",
    "name": "RTX 4090",
    "pool": "ADA_24",
    "manufacturer": "NVIDIA",
    "memory": 24,
    "secure": True,
    "community": True,
    "price": {"secure": 0.69, "community": 0.34},
    "maxCount": {"secure": 8, "community": 2},
    "availability": "LOW",
    "dataCenters": [
        {"id": "US-TX-3", "name": "US Texas 3", "availability": "LOW"},
        {"id": "EU-RO-1", "name": "EU Romania 1", "availability": "NONE"},
    ],
}
H100 = {**RTX, "id": "NVIDIA H100 80GB HBM3", "name": "H100 SXM", "memory": 80, "dataCenters": []}
CATALOG, PODS = "GET /v2/catalog/gpus", "GET /v2/pods"
MACHINE = CloudMachine(id="p1", name=NAME, power=PowerState.RUNNING)


def pod(**more: Any) -> dict[str, Any]:
    direct = {"host": "198.51.100.5", "port": 22001, "username": "root", "command": "ssh"}
    known = {"id": "p1", "name": NAME, "status": "RUNNING", "dataCenterId": "US-TX-3", "cost": 0.69}
    times = {"createdAt": "2025-05-24T01:17:09Z", "startedAt": "2025-05-24T01:18:09Z"}
    return {**known, **times, "ssh": {"proxy": None, "direct": direct}, **more}


def provider(answers: dict[str, Any], **told: Any) -> tuple[RunPodProvider, FarEnd]:
    far = FarEnd(answers)
    return RunPodProvider(Options(api_key="secret-of-tests", **told), far.transport), far


async def test_a_gpu_is_offered_in_each_data_center_that_has_it_at_the_price_of_all_gpus() -> None:
    runpod, far = provider({CATALOG: (200, {"gpus": [RTX, H100]})})
    rtx, h100 = await runpod.offers(Resources(gpu=Gpu(count=2)))
    assert (rtx.name, rtx.region, rtx.gpu_kind) == ("NVIDIA GeForce RTX 4090", "US-TX-3", "RTX 4090")
    assert (rtx.gpu_count, rtx.gpu_memory_gib, rtx.price_microusd_per_hour) == (2, 24, 1_380_000)
    assert (rtx.free, rtx.billing, rtx.interruptible) == (None, Billing(step_s=1), False)
    assert (h100.free, h100.wait_reason) == (0, "RunPod has no 2 x H100 SXM free")
    asked = {"include": "AVAILABILITY", "product": "POD", "count": "2", "cloud": "SECURE"}
    assert far.query(CATALOG) == asked


async def test_more_gpus_than_a_machine_has_are_not_offered() -> None:
    runpod, _ = provider({CATALOG: (200, {"gpus": [RTX]})}, cloud="COMMUNITY")
    assert await runpod.offers(Resources(gpu=Gpu(count=4))) == []
    (one,) = await runpod.offers(Resources())
    assert (one.gpu_count, one.price_microusd_per_hour) == (1, 340_000)


async def test_a_launch_sends_the_native_request_with_the_key_in_the_environment() -> None:
    runpod, far = provider({"POST /v2/pods": (201, pod(status="PROVISIONING", ssh={"direct": None}))})
    wanted = order("NVIDIA GeForce RTX 4090", "US-TX-3", gpu_count=2)
    machine = await runpod.create(wanted)
    assert far.body("POST /v2/pods") == runpod.native_request(wanted)
    assert far.body("POST /v2/pods") == {
        "name": NAME,
        "image": IMAGE,
        "gpu": {"id": "NVIDIA GeForce RTX 4090", "count": 2},
        "cloud": "SECURE",
        "disk": 50,
        "ports": ["22/tcp"],
        "env": {"PUBLIC_KEY": KEY},
        "dataCenterIds": ["US-TX-3"],
    }
    assert (machine.id, machine.power, machine.address) == ("p1", PowerState.STARTING, "")


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            (
                400,
                {
                    "title": "Bad Request",
                    "detail": "There are no longer any instances available with the requested specifications.",
                },
            ),
            NoCapacity,
            "no longer any instances",
        ),
        (
            (422, {"title": "Unprocessable", "status": 422, "detail": "failed", "errors": ["gpu: x"]}),
            LaunchRefused,
            "gpu: x",
        ),
        (
            (401, {"title": "Unauthorized", "status": 401, "detail": "missing bearer token"}),
            LaunchRefused,
            "RUNPOD_API_KEY",
        ),
        (
            (429, {"title": "Too Many Requests", "status": 429, "detail": "minute window"}),
            RateLimited,
            "minute",
        ),
    ],
)
async def test_a_refused_launch_is_the_error_it_means(
    answer: Any, error: type[Exception], words: str
) -> None:
    runpod, _ = provider({"POST /v2/pods": answer})
    with pytest.raises(error, match=words):
        await runpod.create(order("NVIDIA GeForce RTX 4090", ""))


async def test_a_running_pod_is_reached_on_its_mapped_port() -> None:
    runpod, _ = provider({PODS: (200, {"pods": [pod(), pod(name="desk")]})})
    (machine,) = await runpod.machines()
    assert (machine.address, machine.port, machine.region) == ("198.51.100.5", 22001, "US-TX-3")
    assert (machine.power, machine.started_at_ms) == (PowerState.RUNNING, 1748049429000)


@pytest.mark.parametrize(
    ("status", "power"),
    [
        ("STARTING", PowerState.STARTING),
        ("EXITED", PowerState.STOPPED),
        ("ERROR", PowerState.STOPPED),
        ("TERMINATED", PowerState.ENDED),
    ],
)
async def test_a_status_is_a_power(status: str, power: PowerState) -> None:
    listed = [pod(status=status, ssh={"proxy": None, "direct": None}, startedAt=None, dataCenterId=None)]
    runpod, _ = provider({PODS: (200, {"pods": listed})})
    (machine,) = await runpod.machines()
    assert (machine.power, machine.address, machine.region) == (power, "", "")


async def test_destroying_twice_is_as_once_and_nothing_is_left() -> None:
    runpod, far = provider(
        {"DELETE /v2/pods/p1": [(204, None), (404, {"title": "Not Found", "status": 404})]}
    )
    await runpod.destroy(MACHINE)
    await runpod.destroy(MACHINE)
    assert far.lines() == ["DELETE /v2/pods/p1"] * 2
    assert await runpod.leftovers() == ()


async def test_the_meter_adds_up_the_hours_of_a_pod() -> None:
    hours = [{"podId": "p1", "totalAmount": 0.25}, {"podId": "p1", "totalAmount": 0.0625}]
    runpod, far = provider({"GET /v2/billing/pods": (200, {"records": hours})})
    assert isinstance(runpod, MeteredProvider)
    assert await runpod.metered_microusd(MACHINE) == 312_500
    assert far.query("GET /v2/billing/pods") == {"podId": "p1", "bucketSize": "hour"}


async def test_a_bill_that_is_not_written_yet_is_no_bill_of_nothing() -> None:
    runpod, _ = provider({"GET /v2/billing/pods": (200, {"records": []})})
    assert await runpod.metered_microusd(MACHINE) is None


@pytest.mark.parametrize(
    ("told", "balance"),
    [
        ({"data": {"myself": {"email": "a@b.test", "clientBalance": 12.5}}}, 12_500_000),
        ({"errors": []}, None),
    ],
)
async def test_a_check_tells_the_balance_when_there_is_one(told: Any, balance: int | None) -> None:
    runpod, _ = provider({PODS: (200, {"pods": []}), "POST /graphql": (200, told)})
    account = await runpod.check()
    assert (account.valid, account.balance_microusd) == (True, balance)


async def test_a_check_says_why_a_key_does_not_work() -> None:
    runpod, _ = provider({PODS: (403, {"title": "Forbidden", "status": 403, "detail": "access denied"})})
    account = await runpod.check()
    assert not account.valid
    assert "access denied" in account.message
