"""Lambda's own shapes (docs-api.lambda.ai/api/cloud) and ours."""

from typing import Any

import pytest
from tests.unit.backends.clouds.fake_api import KEY, NAME, FarEnd, order

from anygpu.backends.clouds.lambda_ import LambdaProvider, Options
from anygpu.backends.contract import Leftover
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.errors import LaunchRefused, NoCapacity, RateLimited
from anygpu.events.offers import Billing
from anygpu.spec.sections import Resources

A10 = {
    "instance_type": {
        "name": "gpu_1x_a10",
        "description": "1x A10 (24 GB PCIe)",
        "gpu_description": "A10 (24 GB PCIe)",
        "price_cents_per_hour": 75,
        "specs": {"vcpus": 30, "memory_gib": 200, "storage_gib": 1400, "gpus": 1},
    },
    "regions_with_capacity_available": [
        {"name": "us-west-1", "description": "California, USA"},
        {"name": "us-east-1", "description": "Virginia, USA"},
    ],
}
H100 = {
    "instance_type": {
        "name": "gpu_8x_h100_sxm5",
        "description": "8x H100 (80 GB SXM5)",
        "gpu_description": "H100 (80 GB SXM5)",
        "price_cents_per_hour": 2392,
        "specs": {"vcpus": 208, "memory_gib": 1800, "storage_gib": 22528, "gpus": 8},
    },
    "regions_with_capacity_available": [],
}
LAUNCH = "POST /api/v1/instance-operations/launch"
TERMINATE = "POST /api/v1/instance-operations/terminate"


def instance(status: str, **more: Any) -> dict[str, Any]:
    known = {"id": "0920", "name": NAME, "status": status, "ip": "198.51.100.2", "ssh_key_names": [NAME]}
    return {**known, "region": {"name": "us-west-1", "description": "California, USA"}, **more}


def refusal(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "suggestion": None}, "field_errors": {}}


def provider(answers: dict[str, Any], **told: Any) -> tuple[LambdaProvider, FarEnd]:
    far = FarEnd(answers)
    return LambdaProvider(Options(api_key="secret-of-tests", launch_every_s=0, **told), far.transport), far


async def test_a_type_is_offered_in_each_region_that_has_it_with_its_price_and_rule() -> None:
    lambda_, _ = provider({"GET /api/v1/instance-types": (200, {"data": {"gpu_1x_a10": A10}})})
    west, east = await lambda_.offers(Resources())
    assert (west.region, east.region, west.name) == ("us-west-1", "us-east-1", "gpu_1x_a10")
    assert (west.gpu_kind, west.gpu_count, west.gpu_memory_gib) == ("A10", 1, 24)
    assert (west.price_microusd_per_hour, west.billing) == (750_000, Billing(step_s=60))
    assert (west.cpus, west.memory_gib, west.disk_gib, west.free) == (30, 200, 1400, None)
    assert (west.self_expires, west.interruptible) == ("none", False)


async def test_a_type_that_no_wanted_region_has_must_be_waited_for() -> None:
    kinds = {"data": {"gpu_8x_h100_sxm5": H100, "gpu_1x_a10": A10}}
    lambda_, _ = provider({"GET /api/v1/instance-types": (200, kinds)}, regions=("us-east-1",))
    h100, a10 = await lambda_.offers(Resources())
    assert (h100.region, h100.free, h100.wait_reason) == (
        "us-east-1",
        0,
        "Lambda has no gpu_8x_h100_sxm5 free",
    )
    assert (a10.region, a10.free) == ("us-east-1", None)


async def test_a_launch_adds_the_key_under_the_attempts_name_and_sends_the_native_request() -> None:
    lambda_, far = provider(
        {
            "GET /api/v1/ssh-keys": (200, {"data": [{"id": "1", "name": "mine", "public_key": "x"}]}),
            "POST /api/v1/ssh-keys": (200, {"data": {"id": "2", "name": NAME, "public_key": KEY}}),
            LAUNCH: (200, {"data": {"instance_ids": ["0920"]}}),
        }
    )
    wanted = order("gpu_1x_a10", "us-west-1")
    machine = await lambda_.create(wanted)
    assert far.body("POST /api/v1/ssh-keys") == {"name": NAME, "public_key": KEY}
    assert far.body(LAUNCH) == lambda_.native_request(wanted)
    assert far.body(LAUNCH) == {
        "region_name": "us-west-1",
        "instance_type_name": "gpu_1x_a10",
        "ssh_key_names": [NAME],
        "name": NAME,
        "user_data": "#!/bin/sh\nshutdown -h +60\n",
    }
    assert machine == CloudMachine(id="0920", name=NAME, power=PowerState.STARTING, region="us-west-1")


async def test_a_launch_that_is_tried_again_finds_its_key_there() -> None:
    lambda_, far = provider(
        {
            "GET /api/v1/ssh-keys": (200, {"data": [{"id": "2", "name": NAME, "public_key": KEY}]}),
            LAUNCH: (200, {"data": {"instance_ids": ["0920"]}}),
        }
    )
    await lambda_.create(order("gpu_1x_a10", "us-west-1"))
    assert far.lines() == ["GET /api/v1/ssh-keys", LAUNCH]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (
            (400, refusal("instance-operations/launch/insufficient-capacity", "Not enough capacity")),
            NoCapacity,
        ),
        ((400, refusal("global/quota-exceeded", "Quota exceeded")), LaunchRefused),
        ((403, refusal("global/invalid-api-key", "API key was invalid")), LaunchRefused),
        ((404, refusal("global/object-does-not-exist", "No such type")), LaunchRefused),
        ((429, refusal("global/unknown", "Too many requests")), RateLimited),
    ],
)
async def test_a_refused_launch_is_the_error_it_means(answer: Any, error: type[Exception]) -> None:
    lambda_, _ = provider(
        {"GET /api/v1/ssh-keys": (200, {"data": [{"id": "2", "name": NAME}]}), LAUNCH: answer}
    )
    with pytest.raises(error):
        await lambda_.create(order("gpu_1x_a10", "us-west-1"))


@pytest.mark.parametrize(
    ("status", "power", "preempted"),
    [
        ("booting", PowerState.STARTING, False),
        ("active", PowerState.RUNNING, False),
        ("unhealthy", PowerState.RUNNING, False),
        ("terminating", PowerState.ENDING, False),
        ("terminated", PowerState.ENDED, False),
        ("preempted", PowerState.ENDED, True),
    ],
)
async def test_a_status_is_a_power(status: str, power: PowerState, preempted: bool) -> None:
    lambda_, _ = provider({"GET /api/v1/instances": (200, {"data": [instance(status)]})}, ssh_port=2222)
    (machine,) = await lambda_.machines()
    assert (machine.power, machine.preempted, machine.port) == (power, preempted, 2222)
    assert (machine.address, machine.region, machine.detail) == ("198.51.100.2", "us-west-1", status)


async def test_machines_of_others_are_not_listed_and_a_booting_one_has_no_address() -> None:
    listed = [instance("active", name="laptop"), instance("active", name=None), instance("booting", ip=None)]
    lambda_, _ = provider({"GET /api/v1/instances": (200, {"data": listed})})
    assert [(m.name, m.address) for m in await lambda_.machines()] == [(NAME, "")]


async def test_destroying_ends_the_machine_and_its_key() -> None:
    keys = [{"id": "1", "name": "mine"}, {"id": "2", "name": NAME}]
    lambda_, far = provider(
        {
            TERMINATE: (200, {"data": {"terminated_instances": [instance("terminating")]}}),
            "GET /api/v1/ssh-keys": (200, {"data": keys}),
            "DELETE /api/v1/ssh-keys/2": (200, {}),
        }
    )
    await lambda_.destroy(CloudMachine(id="0920", name=NAME, power=PowerState.RUNNING))
    assert far.body(TERMINATE) == {"instance_ids": ["0920"]}
    assert far.lines()[-1] == "DELETE /api/v1/ssh-keys/2"


async def test_destroying_again_still_removes_a_key_that_was_in_use_before() -> None:
    in_use = (400, refusal("ssh-keys/key-in-use", "SSH key is in use"))
    gone = (404, refusal("global/object-does-not-exist", "Specified instance does not exist"))
    lambda_, far = provider(
        {
            TERMINATE: [(200, {"data": {"terminated_instances": []}}), gone],
            "GET /api/v1/ssh-keys": (200, {"data": [{"id": "2", "name": NAME}]}),
            "DELETE /api/v1/ssh-keys/2": [in_use, (200, {})],
        }
    )
    machine = CloudMachine(id="0920", name=NAME, power=PowerState.RUNNING)
    await lambda_.destroy(machine)
    assert await lambda_.leftovers() == [Leftover(kind="key", id="2", name=NAME)]
    await lambda_.destroy(machine)
    assert far.lines().count("DELETE /api/v1/ssh-keys/2") == 2


async def test_a_check_says_why_a_key_does_not_work() -> None:
    lambda_, _ = provider(
        {"GET /api/v1/instances": (403, refusal("global/invalid-api-key", "API key was invalid"))}
    )
    account = await lambda_.check()
    assert not account.valid
    assert "API key was invalid" in account.message
    assert "LAMBDA_API_KEY" in account.message


async def test_launches_wait_for_each_other() -> None:
    far = FarEnd(
        {
            "GET /api/v1/ssh-keys": (200, {"data": [{"id": "2", "name": NAME}]}),
            LAUNCH: (200, {"data": {"instance_ids": ["0920"]}}),
        }
    )
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    lambda_ = LambdaProvider(
        Options(api_key="secret-of-tests", launch_every_s=12), far.transport, clock=lambda: 100.0, sleep=sleep
    )
    for _ in range(3):
        await lambda_.create(order("gpu_1x_a10", "us-west-1"))
    assert waits == [0, 12, 12]
