"""CanopyWave's own shapes (canopywave.com/docs/account/quick-start) and ours."""

from itertools import count
from typing import Any

import httpx
import pytest
from tests.unit.backends.clouds.fake_api import KEY, NAME, FarEnd, order

from anygpu.backends.clouds.canopywave import TAKE_OVER_S, CanopyWaveProvider, Options, public_address
from anygpu.backends.contract import Leftover
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Billing
from anygpu.spec.sections import Resources

FLAVORS = [
    {
        "flavor": "H100-4",
        "images": ["GPU-Ubuntu.22.04", "GPU-Ubuntu.24.04"],
        "name": "4x H100 (80 GB SXM5)",
        "price": 900,
        "priceHour": "$2.25 / gpu / hour",
        "specs": "80 cores, 800.0 GB RAM, 2 TB NVMe",
    },
    {
        "flavor": "m1.advanced",
        "images": ["CPU-Ubuntu.22.04"],
        "name": "16 vCPU x86 Server",
        "price": 56,
        "priceHour": "$0.035 / cpu / hour",
        "specs": "16 cores, 32.0 GB RAM, 500 GB SSD",
    },
]
WHERE = {"region": "sequoia", "project": "lab"}
INSTANCES, IPS, KEYS = "GET /api/v1/instances", "GET /api/v1/ips", "GET /api/v1/ssh-keys"
LAUNCH, TERMINATE = "POST /api/v1/instance-operations/launch", "POST /api/v1/instance-operations/terminate"
MACHINE = CloudMachine(id="9bc5", name=NAME, power=PowerState.RUNNING, region="sequoia")


LATER = count(step=2 * TAKE_OVER_S)  # long after whatever was before


def instance(**more: Any) -> dict[str, Any]:
    known = {
        "flavor": "4x H100 (80 GB SXM5)",
        "id": "9bc5",
        "name": NAME,
        "publicIp": None,
        "status": "active",
    }
    return {
        **known,
        "launchedAt": "2025-05-24T01:17:09.000000",
        "region": "sequoia",
        "role": "worker",
        **more,
    }


def address(number: int, server: str | None) -> dict[str, Any]:
    status = "ACTIVE" if server else "DOWN"
    return {"id": f"ip{number}", "ip": f"198.51.100.{number}", "server": server, "status": status}


def data(value: Any) -> tuple[int, dict[str, Any]]:
    return 200, {"data": value}


def provider(answers: dict[str, Any], **told: Any) -> tuple[CanopyWaveProvider, FarEnd]:
    far = FarEnd(answers)
    options = Options(api_key="secret-of-tests", **{"project": "lab", "regions": ("sequoia",), **told})
    return CanopyWaveProvider(options, far.transport, clock=lambda: next(LATER)), far


async def test_a_flavor_is_priced_as_a_whole_and_its_size_read_from_words() -> None:
    canopywave, far = provider({"GET /api/v1/instance-types": data(FLAVORS)}, regions=("sequoia", "kef-2"))
    offers = await canopywave.offers(Resources())
    assert [(o.name, o.region) for o in offers][::2] == [("H100-4", "sequoia"), ("H100-4", "kef-2")]
    h100, cpu = offers[:2]
    assert (h100.gpu_kind, h100.gpu_count, h100.gpu_memory_gib) == ("H100", 4, 80)
    assert (h100.cpus, h100.memory_gib, h100.disk_gib) == (80, 800, 2000)
    assert (h100.price_microusd_per_hour, cpu.price_microusd_per_hour) == (9_000_000, 560_000)
    assert (cpu.gpu_count, cpu.disk_gib, cpu.billing) == (0, 500, Billing(step_s=3600))
    assert far.query("GET /api/v1/instance-types") == {"project": "lab"}


async def test_a_launch_brings_its_key_and_a_password_nobody_keeps() -> None:
    created = {
        "GET /api/v1/ssh-keys": data([]),
        "POST /api/v1/ssh-keys": data({}),
        LAUNCH: data({"id": "9bc5"}),
    }
    canopywave, far = provider(created)
    wanted = order("H100-4", "sequoia", gpu_count=4)
    machine = await canopywave.create(wanted)
    sent = far.body(LAUNCH)
    assert len(sent["password"]) >= 32
    assert sent | {"password": "(random)"} == canopywave.native_request(wanted)
    assert canopywave.native_request(wanted) == {
        **WHERE,
        "name": NAME,
        "flavor": "H100-4",
        "image": "GPU-Ubuntu.22.04",
        "password": "(random)",
        "keypair": NAME,
    }
    assert far.body("POST /api/v1/ssh-keys") == {**WHERE, "name": NAME, "publicKey": KEY}
    assert (machine.id, machine.power) == ("9bc5", PowerState.STARTING)
    await canopywave.create(wanted)
    assert far.body(LAUNCH)["password"] != sent["password"]


async def test_a_running_machine_without_an_address_gets_one_while_it_is_listed() -> None:
    canopywave, far = provider(
        {
            INSTANCES: data([instance()]),
            IPS: data([address(7, None), address(8, "laptop")]),
            "POST /api/v1/ips": data({"id": "ip9", "ip": "198.51.100.9"}),
            "POST /api/v1/ips/ip9/associate": data({"instanceId": "9bc5", "ipId": "ip9", "portId": "p"}),
        }
    )
    (machine,) = await canopywave.machines()
    assert (machine.address, machine.power) == ("198.51.100.9", PowerState.RUNNING)
    assert machine.started_at_ms == 1748049429000
    assert far.body("POST /api/v1/ips/ip9/associate") == {**WHERE, "instanceId": "9bc5"}


async def test_a_machine_this_process_did_not_make_is_left_to_whoever_made_it_for_a_while() -> None:
    now = [1000.0]
    far = FarEnd(
        {
            INSTANCES: data([instance()]),
            IPS: data([]),
            "POST /api/v1/ips": data({"id": "ip9", "ip": "198.51.100.9"}),
            "POST /api/v1/ips/ip9/associate": data({}),
        }
    )
    options = Options(api_key="secret-of-tests", project="lab", regions=("sequoia",))
    canopywave = CanopyWaveProvider(options, far.transport, clock=lambda: now[0])
    assert [machine.address for machine in await canopywave.machines()] == [""]
    assert far.lines() == [INSTANCES]
    now[0] += TAKE_OVER_S
    assert [machine.address for machine in await canopywave.machines()] == ["198.51.100.9"]


async def test_an_address_already_at_the_machine_is_used_though_the_list_of_machines_lags() -> None:
    canopywave, far = provider({INSTANCES: data([instance()]), IPS: data([address(9, NAME)])})
    (machine,) = await canopywave.machines()
    assert machine.address == "198.51.100.9"
    assert far.lines() == [INSTANCES, IPS]


async def test_an_address_that_could_not_be_associated_is_tried_again_not_allocated_again() -> None:
    canopywave, far = provider(
        {
            INSTANCES: data([instance()]),
            IPS: data([address(9, None)]),
            "POST /api/v1/ips": data({"id": "ip9", "ip": "198.51.100.9"}),
            "POST /api/v1/ips/ip9/associate": [(500, {"error": "port not found"}), data({})],
        }
    )
    (first,) = await canopywave.machines()
    assert first.address == ""
    assert "port not found" in first.detail
    (second,) = await canopywave.machines()
    assert second.address == "198.51.100.9"
    assert far.lines().count("POST /api/v1/ips") == 1


async def test_an_address_whose_allocation_was_never_answered_is_found_not_allocated_again() -> None:
    answers = {
        INSTANCES: data([instance()]),
        IPS: [data([address(7, None)]), data([address(7, None), address(9, None)])],
        "POST /api/v1/ips": httpx.ReadTimeout("slow"),
        "POST /api/v1/ips/ip9/associate": data({}),
    }
    canopywave, far = provider(answers)
    assert [machine.address for machine in await canopywave.machines()] == [""]
    assert [machine.address for machine in await canopywave.machines()] == ["198.51.100.9"]
    assert far.lines().count("POST /api/v1/ips") == 1


async def test_an_address_whose_allocation_was_never_answered_is_released_with_its_machine() -> None:
    answers = {
        INSTANCES: data([instance()]),
        IPS: [data([address(7, None)]), data([address(7, None), address(9, None)])],
        "POST /api/v1/ips": httpx.ReadTimeout("slow"),
        "DELETE /api/v1/ips/ip9": data({}),
        TERMINATE: data({"id": "9bc5"}),
        f"DELETE /api/v1/ssh-keys/{NAME}": data({}),
    }
    canopywave, far = provider(answers)
    await canopywave.machines()
    await canopywave.destroy(MACHINE)
    assert [line for line in far.lines() if "DELETE /api/v1/ips" in line] == ["DELETE /api/v1/ips/ip9"]


async def test_in_a_project_of_our_own_a_spare_address_is_used_once() -> None:
    twin_free = [instance(), instance(id="aaaa", name=NAME + "1")]
    canopywave, far = provider(
        {
            INSTANCES: data(twin_free),
            IPS: data([address(7, None)]),
            "POST /api/v1/ips/ip7/associate": data({}),
            "POST /api/v1/ips": data({"id": "ip9", "ip": "198.51.100.9"}),
            "POST /api/v1/ips/ip9/associate": data({}),
        },
        own_project=True,
    )
    assert {m.address for m in await canopywave.machines()} == {"198.51.100.7", "198.51.100.9"}
    assert far.lines().count("POST /api/v1/ips") == 1


@pytest.mark.parametrize(
    "first", [instance(publicIp="198.51.100.9"), instance(launchedAt="2025-05-24T01:00:00")]
)
async def test_a_twin_gets_no_address(first: dict[str, Any]) -> None:
    canopywave, _ = provider(
        {
            INSTANCES: data([instance(id="twin"), first]),
            IPS: data([]),
            "POST /api/v1/ips": data({"id": "ip9", "ip": "198.51.100.9"}),
            "POST /api/v1/ips/ip9/associate": data({}),
        }
    )
    found = {machine.id: machine.address for machine in await canopywave.machines()}
    assert found == {"twin": "", "9bc5": "198.51.100.9"}


async def test_ending_a_twin_leaves_its_brothers_address() -> None:
    canopywave, far = provider(
        {
            INSTANCES: data([instance(id="twin"), instance(publicIp="198.51.100.9")]),
            IPS: data([address(9, NAME)]),
            TERMINATE: data({"id": "twin"}),
            f"DELETE /api/v1/ssh-keys/{NAME}": data({}),
        }
    )
    await canopywave.destroy(CloudMachine(id="twin", name=NAME, power=PowerState.RUNNING, region="sequoia"))
    assert "DELETE /api/v1/ips/ip9" not in far.lines()
    assert far.body(TERMINATE) == {**WHERE, "id": "twin"}


async def test_destroying_releases_the_address_while_its_name_is_known_and_then_ends_the_machine() -> None:
    canopywave, far = provider(
        {
            INSTANCES: data([instance(publicIp="198.51.100.9")]),
            IPS: data([address(9, NAME), address(8, "laptop"), address(7, None)]),
            "DELETE /api/v1/ips/ip9": data({"id": "ip9"}),
            TERMINATE: data({"id": "9bc5"}),
            f"DELETE /api/v1/ssh-keys/{NAME}": data({"name": NAME}),
        }
    )
    await canopywave.destroy(MACHINE)
    assert far.lines()[2:] == ["DELETE /api/v1/ips/ip9", TERMINATE, f"DELETE /api/v1/ssh-keys/{NAME}"]
    assert far.query("DELETE /api/v1/ips/ip9") == WHERE


async def test_an_address_that_must_be_taken_off_first_is_taken_off_first() -> None:
    canopywave, far = provider(
        {
            "DELETE /api/v1/ips/ip9": [(409, {"error": "in use"}), data({})],
            "DELETE /api/v1/ips/ip9/disassociate": data({}),
        }
    )
    await canopywave.remove(Leftover(kind="address", id="ip9", name=NAME, region="sequoia"))
    assert far.lines() == [
        "DELETE /api/v1/ips/ip9",
        "DELETE /api/v1/ips/ip9/disassociate",
        "DELETE /api/v1/ips/ip9",
    ]


async def test_a_machine_that_is_being_ended_gets_no_new_address() -> None:
    canopywave, far = provider(
        {
            INSTANCES: data([instance()]),
            IPS: data([]),
            TERMINATE: (404, {"error": "not found"}),
            f"DELETE /api/v1/ssh-keys/{NAME}": (404, {"error": "not found"}),
        }
    )
    await canopywave.destroy(MACHINE)
    (machine,) = await canopywave.machines()
    assert machine.address == ""
    assert "POST /api/v1/ips" not in far.lines()


async def test_leftovers_are_addresses_and_keys_that_carry_our_name() -> None:
    keys = [{"keypair": {"name": "mine", "public_key": "x"}}, {"keypair": {"name": NAME, "public_key": KEY}}]
    answers = {KEYS: data(keys), IPS: data([address(9, NAME), address(8, "laptop"), address(7, None)])}
    key = Leftover(kind="key", id=NAME, name=NAME, region="sequoia")
    ours = Leftover(kind="address", id="ip9", name=NAME, region="sequoia")
    nobodys = Leftover(kind="address", id="ip7", name="", region="sequoia")
    shared, _ = provider(dict(answers))
    assert await shared.leftovers() == [key, ours]
    alone, _ = provider(dict(answers), own_project=True)
    assert await alone.leftovers() == [key, ours, nobodys]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"publicIp": "198.51.100.2"}, "198.51.100.2"),
        ({"ip": "198.51.100.2"}, "198.51.100.2"),
        ({"floating_ip": "198.51.100.2"}, "198.51.100.2"),
        ({"public_ip": "198.51.100.2"}, "198.51.100.2"),
        ({"accessIPv4": "198.51.100.2"}, "198.51.100.2"),
        ({"publicIp": None, "accessIPv4": ""}, ""),
        ({"addresses": {"network": [{"addr": "1.2.3.4", "version": 4}]}}, "1.2.3.4"),
        (
            {
                "addresses": {
                    "net": [{"addr": "2001:db8::1", "version": 6}, {"addr": "1.2.3.4", "version": 4}]
                }
            },
            "1.2.3.4",
        ),
        ({"addresses": {"net": [{"addr": "172.16.0.252", "version": 4, "OS-EXT-IPS:type": "fixed"}]}}, ""),
    ],
)
def test_an_address_is_found_wherever_it_is_said_and_a_private_one_is_none(said: Any, found: str) -> None:
    assert public_address(said) == found


@pytest.mark.parametrize(
    ("status", "power"),
    [
        ("ACTIVE", PowerState.RUNNING),
        ("BUILD", PowerState.STARTING),
        ("error", PowerState.STOPPED),
        ("deleted", PowerState.ENDED),
    ],
)
async def test_a_status_is_a_power_however_it_is_written(status: str, power: PowerState) -> None:
    canopywave, _ = provider(
        {INSTANCES: data([instance(status=status, publicIp="198.51.100.9", launchedAt=None)])}
    )
    (machine,) = await canopywave.machines()
    assert (machine.power, machine.started_at_ms) == (power, None)


async def test_the_only_project_is_found_and_several_must_be_chosen_from() -> None:
    one, _ = provider({"GET /api/v1/projects": data(["lab"]), IPS: data([])}, project="")
    assert (await one.check()).message == "the key works; project lab"
    several, _ = provider({"GET /api/v1/projects": data(["lab", "other"])}, project="")
    with pytest.raises(LaunchRefused, match="the API key has access to lab, other"):
        await several.machines()


async def test_a_check_says_why_a_key_does_not_work() -> None:
    wrong, _ = provider({"GET /api/v1/projects": (401, {"error": "Unauthorized"})})
    account = await wrong.check()
    assert not account.valid
    assert "CANOPYWAVE_API_KEY" in account.message
    elsewhere, _ = provider({"GET /api/v1/projects": data(["other"])})
    assert (
        await elsewhere.check()
    ).message == "the API key has access to other, not to lab; change the option `project` of the backend"


async def test_a_check_tells_of_addresses_that_bill_for_nothing() -> None:
    answers = {"GET /api/v1/projects": data(["lab"]), IPS: data([address(7, None), address(8, "laptop")])}
    canopywave, _ = provider(answers)
    assert (await canopywave.check()).message.endswith("billed addresses without a machine: 198.51.100.7")


async def test_regions_are_asked_for_when_none_is_configured() -> None:
    answers = {
        "GET /api/v1/instance-types": data(FLAVORS[:1]),
        "GET /api/v1/regions": data(["a", {"name": "b"}]),
    }
    canopywave, _ = provider(answers, regions=())
    assert [offer.region for offer in await canopywave.offers(Resources())] == ["a", "b"]
